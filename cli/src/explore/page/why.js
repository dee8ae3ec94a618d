// Explains the hits of a question: a map of the leaves, with reached leaves coloured, their hits, and the
// hits of exact search elsewhere.

import { post } from "./ask.js";
import { questionForm } from "./controls.js";
import { chance, count, el, foreign, ms, percent, plural, score, table, tip } from "./dom.js";
import { leafOf, remarks } from "./hit.js";
import { readLeaves } from "./leaves.js";
import { read } from "./reader.js";
import { map } from "./treemap.js";

const K = 10;
/** Words of a leaf in a table. */
const WORDS = 4;
/** Documents up to which the library compares all of them, unless a number of leaves is chosen. */
const COMPARED = 10_000;

export function why(app, main) {
    const { ask } = app;
    const button = el("button", { class: "main" }, "Why?");
    const { form, chips, input, offer } = questionForm(app, { submit, changed: explain, button });
    const said = el("p", { role: "status", class: "small", id: "said" });
    const body = el("div", {});
    main.append(form, chips, said, body);
    /** What is shown: the answer, and where the map is. */
    let shown = null;
    let words = new Map();
    let sent = new AbortController();
    const resized = new ResizeObserver(() => shown && shown.place.clientWidth !== shown.width && draw());

    function submit() {
        ask.question = input.value;
        app.keep();
        explain();
    }

    function nothing(text) {
        shown = null;
        said.textContent = text;
        body.replaceChildren();
    }

    async function explain() {
        // An answer to an earlier question is too late.
        sent.abort();
        sent = new AbortController();
        const { signal } = sent;
        if (app.about.documents === 0) return nothing(tip(app.about, "The index has no documents. “ehi insert” adds some."));
        if (ask.question.trim() === "") return nothing("Ask a question to see where it leads.");
        const found = await app.try(() => post("/api/why", app.asked(K), signal));
        if (signal.aborted) return undefined;
        if (!found) return nothing("");
        const lost = missed(found);
        shown = { found, lost, place: el("div", {}), width: 0 };
        said.textContent = sentence(app, found, found.tree, lost) + remarks(found);
        body.replaceChildren(drawn(app, shown));
        resized.disconnect();
        resized.observe(shown.place);
        draw();
        return undefined;
    }

    /** The map, as wide as its place, and the words: they come later than the answer. */
    function draw() {
        if (shown === null) return;
        shown.width = shown.place.clientWidth;
        if (shown.found.tree > 1) shown.place.replaceChildren(map(shown, words, shown.width, leaf => leafOf(app, leaf)));
        for (const cell of body.querySelectorAll("[data-words]")) cell.textContent = (words.get(Number(cell.dataset.words)) ?? []).slice(0, WORDS).join(", ");
    }

    /** The words of each leaf; the map is drawn without them where they cannot be read. */
    async function readWords() {
        words = new Map();
        if (app.about.leaves === 1) return;
        const read = await readLeaves(false).catch(() => ({ leaves: [] }));
        words = new Map(read.leaves.map(({ leaf, terms }) => [leaf, terms.map(({ term }) => term)]));
        draw();
    }

    input.focus();
    explain();
    readWords();
    return {
        changed: () => {
            readWords();
            offer();
            explain();
        },
        leave: () => {
            shown = null;
            sent.abort();
            resized.disconnect();
        },
    };
}

function missed({ exact, hits }) {
    const ids = new Set(hits.map(({ id }) => id));
    return (exact ?? []).map((own, at) => ({ ...own, rank: at + 1 })).filter(({ id }) => !ids.has(id));
}

function sentence(app, found, leaves, lost) {
    if (leaves === 1) return tip(app.about, `This index has no tree: each search compares all ${app.about.unit}. “ehi tune” makes a tree.`);
    return `${went(app, found, leaves)} ${compared(found, lost)}`.trim();
}

/** Where the search went. */
function went(app, { leaves, likely, stats, ranked_by }, all) {
    const { unit, documents } = app.about;
    if (leaves.length > 0) {
        const bare = leaves.filter(own => own.documents === 0).length;
        return `${plural(leaves.length, "leaf", "leaves")} of ${count(all)} visited, with ${percent(stats.visited_fraction)} of the ${unit}${bare === 0 ? "" : `; ${count(bare)} of them ${bare === 1 ? "has" : "have"} no documents, and so no place on the map`}. The most probable one has ${chance(leaves[0].probability)}.`;
    }
    const would = likely.length === 0 ? "" : ` The map shows where the tree would lead: to ${plural(likely.length, "leaf", "leaves")}, the most probable of which has ${chance(likely[0].probability)}.`;
    if (ranked_by.mode === "lexical") return `Ranked by words alone, without the tree.${would}`;
    const reason = app.ask.reach === "exact" || documents > COMPARED ? "" : `, as usual with up to ${count(COMPARED)} documents`;
    return `All ${unit}${app.ask.filters.length > 0 ? " that pass the filters" : ""} were compared, without the tree${reason}.${would}`;
}

function compared({ leaves, exact, exact_ms }, lost) {
    // A search that compared all documents equals exact search.
    if (exact === null || leaves.length === 0 && lost.length === 0) return "";
    if (lost.length === 0) return `Exact search finds the same ${plural(exact.length, "document")}.`;
    return `Exact search, in ${ms(exact_ms)}, finds ${plural(lost.length, "other document")} among its best ${exact.length}.`;
}

function drawn(app, { found, lost, place }) {
    const tree = found.tree > 1;
    const { hits, leaves, likely, exact } = found;
    const right = el("div", {}, el("h2", {}, "Hits"), hits.length === 0 ? el("p", {}, "None.") : hitTable(app, found, tree),
        exact === null || leaves.length === 0 && lost.length === 0 ? null : [el("h2", {}, "What exact search finds elsewhere"),
            lost.length === 0 ? el("p", {}, "Nothing.") : lostTable(app, lost)]);
    if (!tree) return right;
    const reached = leaves.length > 0 ? leaves : likely;
    return el("div", { class: "split" },
        el("div", {}, el("h2", {}, "The leaves"), place, legend(found, lost),
            reached.length === 0 ? null : [el("h2", {}, leaves.length > 0 ? "Visited, the most probable first" : "The most probable"), leafTable(app, found, reached)]),
        right);
}

function titled(app, own) {
    return foreign("button", { type: "button", class: "link", onclick: () => read(app, own, app.ask.question) }, own.title || own.id);
}

function leafLink(app, leaf) {
    return el("button", { type: "button", class: "link", onclick: () => leafOf(app, leaf) }, String(leaf));
}

function leafTable(app, { leaves, hits }, reached) {
    const inLeaf = leaf => hits.filter(own => own.leaf === leaf).length;
    const rows = reached.map((own, at) => [String(at + 1), leafLink(app, own.leaf), chance(own.probability), count(own.documents), String(inLeaf(own.leaf)), foreign("span", { "data-words": own.leaf }, "")]);
    return table([["No.", "number"], ["Leaf", "short"], ["Probability", "number"], ["Documents", "number"], ["Hits", "number"], ["Words", "title"]], rows,
        leaves.length > 0 ? "Visited leaves" : "The most probable leaves");
}

function hitTable(app, { hits, leaves }, tree) {
    const byWords = hits.some(own => own.terms.length > 0);
    const columns = [
        [["Hit", "title"], own => titled(app, own)],
        [["Score", "number"], own => score(own.score)],
        tree && [["Leaf", "short"], own => leafLink(app, own.leaf)],
        leaves.length > 0 && [["Exact rank", "number"], own => (own.exact_rank === null ? "–" : String(own.exact_rank))],
        byWords && [["By words"], own => own.terms.map(({ term, weight }, at) => [at > 0 ? ", " : null, foreign("span", {}, term), ` ${weight.toFixed(1)}`]).flat().filter(Boolean)],
    ].filter(Boolean);
    const cell = value => (Array.isArray(value) ? el("span", {}, value) : value);
    return table(columns.map(([head]) => head), hits.map(own => columns.map(([, of]) => cell(of(own)))), "Hits");
}

function lostTable(app, lost) {
    return table([["Document", "title"], ["Rank", "number"], ["Leaf", "short"], ["Probability", "number"], ["Visited", "short"]],
        lost.map(own => [titled(app, own), String(own.rank), leafLink(app, own.leaf), chance(own.leaf_probability), own.visited ? "yes" : "no"]),
        "What exact search finds elsewhere");
}

function legend({ leaves, hits }, lost) {
    const key = (kind, text) => el("span", {}, el("span", { class: `key ${kind}` }), text);
    return el("p", { class: "row small faint legend" },
        key("cell", "a leaf, as large as its documents"),
        key("lit", `${leaves.length > 0 ? "visited" : "among the most probable"}: numbered, and in a stronger colour the more probable`),
        hits.length === 0 ? null : key("hit-dot", "a hit"),
        lost.some(own => !own.visited) ? key("missed", "not visited, and holds what exact search finds") : null);
}
