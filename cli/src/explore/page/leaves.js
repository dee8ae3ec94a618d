// The topic and load of each leaf, and the previous leaves of its documents.

import { get, post } from "./ask.js";
import { chance, count, el, foreign, percent, plural, tip } from "./dom.js";
import { read as open } from "./reader.js";

const SHOWN = 30;

export function leaves(app, main) {
    const said = el("p", { role: "status", class: "small" });
    const again = el("button", { type: "button", onclick: () => look(true) }, "Read again");
    const input = el("input", { type: "search", autocomplete: "off", value: app.leaf === undefined ? "" : String(app.leaf), oninput: () => { shown = SHOWN; draw(); } });
    const order = el("select", { onchange: draw },
        el("option", { value: "documents" }, "most documents first"), el("option", { value: "leaf" }, "by number"), el("option", { value: "queries" }, "most questions first"), el("option", { value: "moved" }, "most moved first"));
    const list = el("ul", { class: "cards" });
    const more = el("button", { type: "button", hidden: true, onclick: () => { shown += SHOWN; draw(); } }, "More leaves");
    main.append(
        el("h2", {}, "Leaves"),
        el("div", { class: "ask fields" }, el("label", {}, "Number or word", input), el("label", {}, "Order", order), again),
        said, list, more);
    app.leaf = undefined;
    let shown = SHOWN;
    let reading = null;

    async function look(anew) {
        again.disabled = true;
        if (anew || reading === null) said.textContent = "Reading every document …";
        const now = await app.try(() => readLeaves(anew));
        again.disabled = false;
        if (now) done(now);
        else said.textContent = "";
    }

    function done(now) {
        const same = reading !== null && reading.generation === now.generation && reading.model === now.model;
        said.textContent = summary(app, now);
        reading = now;
        // Does not disturb a user reading a card.
        if (!same) draw();
    }

    function draw() {
        if (reading === null) return;
        const wanted = input.value.trim().toLowerCase();
        const has = leaf => wanted === "" || String(leaf.leaf) === wanted || leaf.terms.some(({ term }) => term.includes(wanted));
        const moved = leaf => (leaf.documents === 0 ? 0 : 1 - (leaf.from[0]?.documents ?? 0) / leaf.documents);
        const by = {
            documents: (a, b) => b.documents - a.documents,
            leaf: (a, b) => a.leaf - b.leaf,
            queries: (a, b) => b.queries_routed - a.queries_routed,
            moved: (a, b) => moved(b) - moved(a),
        }[order.value];
        const chosen = reading.leaves.filter(has).sort(by);
        list.replaceChildren(...chosen.slice(0, shown).map(leaf => card(app, leaf, reading)));
        more.hidden = chosen.length <= shown;
        if (chosen.length === 0 && wanted !== "") list.append(el("li", {}, "No leaf with documents has this number, or such a word."));
    }

    look(false);
    return { changed: () => look(false) };
}

let pending = null;

/** The leaves as they were read last, or read anew. Views that ask meanwhile wait for the same answer. */
export function readLeaves(anew) {
    pending ??= (anew ? post("/api/leaves") : get("/api/leaves")).finally(() => (pending = null));
    return pending;
}

function summary(app, { leaves, tree, even, questions, before, stale }) {
    const since = stale ? " The index has changed since this was read." : "";
    if (leaves.length === 0) return tip(app.about, `The index has no documents. “ehi insert” adds some.${since}`);
    if (tree === 1) return tip(app.about, `This index has no tree, so that all its documents are in one leaf. “ehi tune” makes a tree.${since}`);
    const used = `${count(leaves.filter(leaf => leaf.documents > 0).length)} of ${count(tree)} leaves have documents; if all had as many, it would be ${even.toFixed(1)} each.`;
    const asked = questions === 0 ? " No question was judged or logged." : ` ${plural(questions, "question")} judged or logged lead to them.`;
    const changed = before === null ? " No tree is kept from before." : ` The tree before had ${plural(before.leaves, "leaf with documents", "leaves with documents")}; of the ${plural(before.compared, "document")} that both hold, ${percent(before.together)} are in the leaf to which most of their former leaf went.`;
    return used + asked + changed + since;
}

function card(app, leaf, reading) {
    const load = reading.even === 0 ? 0 : leaf.documents / reading.even;
    const documents = leaf.nearest.map(own => el("li", {},
        foreign("button", { type: "button", class: "link", onclick: () => open(app, own, "") }, own.title || own.text || own.id)));
    const questions = leaf.queries.map(own => el("li", {}, foreign("span", {}, own.text), el("span", { class: "faint", title: "Probability of the leaf for this question" }, ` ${chance(own.probability)}`)));
    const tree = reading.tree > 1;
    const about = [plural(leaf.documents, "document"), tree && `${load.toFixed(1)} times the average`, leaf.path.length > 1 && `path ${leaf.path.join(".")}`];
    return el("li", { class: "card" },
        el("h3", {}, tree ? `Leaf ${leaf.leaf}` : "All documents"),
        el("p", { class: "small faint" }, about.filter(Boolean).join(", ")),
        leaf.terms.length === 0 ? null : el("p", {}, leaf.terms.flatMap(({ term }, at) => [at > 0 ? ", " : null, foreign("span", {}, term)]).filter(Boolean)),
        documents.length === 0 ? null : [el("p", { class: "small faint" }, "Typical documents"), el("ul", {}, documents)],
        leaf.queries_routed === 0 ? null : [el("p", { class: "small faint" }, `Questions (${count(leaf.queries_routed)})`), el("ul", {}, questions)],
        reading.before === null ? null : el("p", { class: "small faint" }, origin(leaf)));
}

function origin({ from, new: added, documents }) {
    if (documents === 0) return "Empty.";
    const parts = from.map(({ leaf, documents }) => `${count(documents)} from leaf ${leaf}`);
    if (added > 0) parts.push(`${count(added)} new`);
    return `Before: ${parts.join(", ")}.`;
}
