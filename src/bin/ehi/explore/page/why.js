// Why a question finds what it finds: the leaves as a map, those visited lit by their probability, the hits in
// them, and what exact search finds elsewhere.

import { get, post } from "./ask.js";
import { controls, filters } from "./controls.js";
import { el, foreign, svg, table } from "./dom.js";
import { leafOf } from "./hit.js";
import { count, ms, percent, plural, score } from "./numbers.js";
import { read } from "./reader.js";
import { treemap } from "./treemap.js";

const BOX = { x: 0, y: 0, width: 900, height: 520 };
const K = 10;
/** Width of a letter in the map, about, and height of a leaf that is named. */
const LETTER = 6;
const NAMED = 24;

export function why(app, main) {
    const { ask } = app;
    const input = el("input", { type: "search", id: "question", value: ask.question, autocomplete: "off", spellcheck: "false" });
    const options = el("div", { class: "row" });
    const chips = el("ul", { class: "chips", "aria-label": "Filters" });
    const body = el("div", {});
    const run = el("button", { class: "main" }, "Why?");
    main.append(
        el("form", { class: "ask", onsubmit: asked }, el("div", { class: "question" }, el("label", { for: "question" }, "Question"), input), options, run),
        chips, el("p", { role: "status", class: "small", id: "said" }), body);
    const said = main.querySelector("#said");

    function asked(event) {
        event?.preventDefault();
        ask.question = input.value;
        app.keep();
        explain();
    }

    function changed() {
        options.replaceChildren(...controls(app, changed));
        chips.replaceChildren(...filters(app, changed));
        explain();
    }

    async function explain() {
        if (ask.question.trim() === "") {
            body.replaceChildren();
            said.textContent = "Ask a question to see where it leads.";
            return;
        }
        run.disabled = true;
        const words = new Map((app.words ?? []).map(leaf => [leaf.leaf, leaf.terms.map(({ term }) => term)]));
        const answer = await app.try(() => Promise.all([post("/api/why", app.asked(K)), get("/api/map")]));
        run.disabled = false;
        if (!answer) return;
        const [found, sizes] = answer;
        said.textContent = sentence(app, found);
        body.replaceChildren(drawn(app, found, sizes, words));
    }

    options.append(...controls(app, changed));
    chips.append(...filters(app, changed));
    input.focus();
    explain();
    // Words of the leaves, if they were read.
    get("/api/leaves").then(read => {
        if (read.phase === "done" && app.words !== read.leaves) {
            app.words = read.leaves;
            if (ask.question.trim() !== "") explain();
        }
    }).catch(() => {});
    return { changed: explain };
}

function missed({ exact, hits }) {
    const ids = new Set(hits.map(({ id }) => id));
    return (exact ?? []).map((own, at) => ({ ...own, rank: at + 1 })).filter(({ id }) => !ids.has(id));
}

function sentence(app, found) {
    const { leaves, stats, entropy, exact } = found;
    const lost = missed(found).length;
    const went = leaves.length === 0
        ? found.ranked_by.mode === "lexical" ? "Ranked by words alone, without the tree." : "Every document that may be a hit was scored, without the tree; choose a number of leaves to see where the tree leads."
        : `${plural(leaves.length, "leaf", "leaves")} of ${count(app.about.leaves)} visited, with ${percent(stats.visited_fraction)} of the ${app.about.unit}; entropy of the choice ${entropy === null ? "–" : entropy.toFixed(2)} nats.`;
    const compared = exact === null ? "" : lost === 0 ? ` Exact search finds the same ${plural(exact.length, "document")}.` : ` Exact search, in ${ms(found.exact_ms)}, finds ${plural(lost, "other document")} among its best ${exact.length}.`;
    return went + compared;
}

function drawn(app, found, sizes, words) {
    const lost = missed(found);
    const title = own => own.title.trim() || own.id;
    const open = own => foreign("button", { type: "button", class: "link", onclick: () => read(app, own.id, app.ask.question) }, title(own));
    const leafLink = leaf => el("button", { type: "button", class: "link", onclick: () => leafOf(app, leaf) }, String(leaf));
    const inLeaf = leaf => found.hits.filter(own => own.from === leaf).length;
    const visited = table([["Leaf", "short"], ["Probability", "number"], ["Documents", "number"], ["Hits", "number"], ["Words"]],
        found.leaves.map(own => [leafLink(own.leaf), own.probability.toFixed(4), count(own.documents), String(inLeaf(own.leaf)), (words.get(own.leaf) ?? []).slice(0, 4).join(", ")]),
        "Visited leaves");
    const byWords = found.hits.some(own => own.terms.length > 0);
    const said = own => own.terms.map(({ term, weight }) => `${term} ${weight.toFixed(1)}`).join(", ");
    const hits = table([["Hit"], ["Score", "number"], ["Leaf", "short"], ["Exact rank", "number"], ...(byWords ? [["By words"]] : [])],
        found.hits.map(own => [open(own), score(own.score), leafLink(own.from), own.exact_rank === null ? "–" : String(own.exact_rank), ...(byWords ? [said(own)] : [])]),
        "Hits");
    const elsewhere = table([["Document"], ["Rank", "number"], ["Score", "number"], ["Leaf", "short"], ["Its probability", "number"], ["Visited"]],
        lost.map(own => [open(own), String(own.rank), score(own.score), leafLink(own.leaf), own.probability.toFixed(4), own.visited ? "yes" : "no"]),
        "What exact search finds elsewhere");
    return el("div", { class: "split" },
        el("div", {}, el("h2", {}, "The leaves"),
            app.about.leaves === 1 ? el("p", {}, "This index has no tree. “ehi tune” makes one.") : [map(app, found, lost, sizes, words), legend()],
            found.leaves.length === 0 ? null : [el("h2", {}, "Visited, the most probable first"), visited]),
        el("div", {}, el("h2", {}, "Hits"), hits,
            found.exact === null ? null : [el("h2", {}, "What exact search finds elsewhere"),
                lost.length === 0 ? el("p", {}, "Nothing.") : elsewhere]));
}

function legend() {
    const key = (kind, text) => el("span", {}, el("span", { class: `key ${kind}` }), text);
    return el("p", { class: "row small faint" }, key("cell", "a leaf, its area by documents"), key("lit", "visited, brighter the more probable"), key("hit-dot", "hits, one dot each"), key("missed", "holds what was missed"));
}

function map(app, found, lost, sizes, words) {
    const probability = new Map(found.leaves.map(own => [own.leaf, own.probability]));
    const most = Math.max(...probability.values(), 1e-9);
    const gone = new Set(lost.filter(own => !own.visited).map(own => own.leaf));
    const shapes = treemap(sizes.documents, sizes.branching_factor, sizes.height, BOX).map(({ item, ...own }) => {
        const { leaf, size } = item;
        const p = probability.get(leaf);
        const name = (words.get(leaf) ?? []).slice(0, 3).join(", ");
        const about = `Leaf ${leaf}, ${plural(size, "document")}${p === undefined ? "" : `, probability ${p.toFixed(4)}`}${name === "" ? "" : `: ${name}`}`;
        const kind = [p === undefined ? "" : "lit", gone.has(leaf) ? "missed" : ""].join(" ").trim();
        const rect = svg("rect", { ...own, class: kind || null, "data-leaf": leaf, onclick: () => leafOf(app, leaf) }, svg("title", {}, about));
        // Brightness by the logarithm: probabilities fall fast.
        if (p !== undefined) rect.style.fillOpacity = String(Math.max(0.15, 1 + Math.log10(Math.max(p / most, 1e-4)) / 4));
        const dots = Array.from({ length: found.hits.filter(hit => hit.from === leaf).length }, (_, at) => svg("circle", {
            cx: own.x + Math.min(8 + 10 * at, Math.max(own.width - 4, 2)), cy: own.y + Math.min(own.height / 2, 10), r: 4,
        }));
        const named = own.height > NAMED && p === undefined ? fitting(words.get(leaf) ?? [], own.width - 4) : "";
        return [rect, named === "" ? null : svg("text", { x: own.x + 3, y: own.y + 13 }, named), dots];
    });
    const label = `A map of ${count(app.about.leaves)} leaves, of which ${found.leaves.length} were visited. The tables say the same.`;
    return svg("svg", { class: "map", viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": label }, shapes);
}

/** As many words as fit into a width. */
function fitting(words, width) {
    let named = "";
    for (const word of words.slice(0, 3)) {
        const longer = named === "" ? word : `${named}, ${word}`;
        if (longer.length * LETTER > width) break;
        named = longer;
    }
    return named;
}
