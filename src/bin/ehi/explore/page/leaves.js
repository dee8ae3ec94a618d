// What each leaf is about, how loaded it is, and where its documents were before the last change of the tree.

import { get, post } from "./ask.js";
import { el, foreign } from "./dom.js";
import { count, percent, plural } from "./numbers.js";
import { read as open } from "./reader.js";

const SHOWN = 30;
const POLL = 400;

export function leaves(app, main) {
    const said = el("p", { role: "status", class: "small" });
    const again = el("button", { type: "button", onclick: begin }, "Read again");
    const input = el("input", { type: "search", id: "leaf-words", autocomplete: "off", value: app.leaf === undefined ? "" : String(app.leaf), oninput: () => { shown = SHOWN; draw(); } });
    const order = el("select", { id: "leaf-order", onchange: draw },
        el("option", { value: "documents" }, "most documents"), el("option", { value: "leaf" }, "number"), el("option", { value: "queries" }, "most questions"), el("option", { value: "moved" }, "most moved"));
    const list = el("ul", { class: "cards" });
    const more = el("button", { type: "button", hidden: true, onclick: () => { shown += SHOWN; draw(); } }, "More leaves");
    main.append(
        el("h2", {}, "Leaves"),
        el("div", { class: "ask" },
            el("label", { for: "leaf-words" }, "Number or word"), input,
            el("label", { for: "leaf-order" }, "First"), order, again),
        said, list, more);
    app.leaf = undefined;
    let shown = SHOWN;
    let reading = null;
    let timer;

    async function begin() {
        again.disabled = true;
        said.textContent = "Reading every document …";
        if (await app.try(() => post("/api/leaves"))) await look();
    }

    async function look() {
        const now = await app.try(() => get("/api/leaves"));
        if (!now) return;
        if (now.phase === "no") return begin();
        if (now.phase === "under_way") {
            again.disabled = true;
            said.textContent = "Reading every document …";
            timer = setTimeout(look, POLL);
            return;
        }
        again.disabled = false;
        if (now.phase === "failed") {
            said.textContent = now.message;
            return;
        }
        reading = now;
        app.words = now.leaves;
        said.textContent = summary(app, now);
        draw();
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
        if (chosen.length === 0) list.append(el("li", {}, "No leaf has that word among its own."));
    }

    look();
    return { leave: () => clearTimeout(timer), changed: look };
}

function summary(app, { leaves, even, questions, before, stale }) {
    const used = `${count(leaves.filter(leaf => leaf.documents > 0).length)} of ${count(app.about.leaves)} leaves have documents, ${even.toFixed(1)} each at an even load.`;
    const asked = questions === 0 ? " No question was judged or logged." : ` ${plural(questions, "question")} judged or logged lead to them.`;
    const changed = before === null ? " No tree is kept from before." : ` Before the last change there were ${count(before.leaves)}; ${percent(before.together)} of the ${plural(before.compared, "document")} of both went with most of their leaf.`;
    return used + asked + changed + (stale ? " The index has changed since this was read." : "");
}

function card(app, leaf, reading) {
    const load = reading.even === 0 ? 0 : leaf.documents / reading.even;
    const documents = leaf.nearest.map(own => el("li", {},
        foreign("button", { type: "button", class: "link", onclick: () => open(app, own.id, "") }, own.title.trim() || own.text.trim() || own.id)));
    const questions = leaf.queries.map(own => el("li", {}, foreign("span", {}, own.text), el("span", { class: "faint" }, ` ${own.probability.toFixed(2)}`)));
    const path = leaf.path.length > 1 ? `, path ${leaf.path.join(".")}` : "";
    return el("li", { class: "card" },
        el("h3", {}, `Leaf ${leaf.leaf}`),
        el("p", { class: "small faint" }, `${plural(leaf.documents, "document")}, ${load.toFixed(1)} times even${path}`),
        leaf.terms.length === 0 ? null : foreign("p", {}, leaf.terms.map(({ term }) => term).join(", ")),
        documents.length === 0 ? null : [el("p", { class: "small faint" }, "Typical documents"), el("ul", {}, documents)],
        leaf.queries_routed === 0 ? null : [el("p", { class: "small faint" }, `Questions (${count(leaf.queries_routed)})`), el("ul", {}, questions)],
        reading.before === null ? null : el("p", { class: "small faint" }, origin(leaf)));
}

function origin({ from, new: added, documents }) {
    if (documents === 0) return "Empty.";
    const parts = from.map(({ leaf, documents }) => `${count(documents)} from ${leaf}`);
    if (added > 0) parts.push(`${count(added)} new`);
    return `Before: ${parts.join(", ")}.`;
}
