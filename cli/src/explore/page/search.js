// Hits while typing: by the fast encoder at once, by the full one a moment later.

import { post } from "./ask.js";
import { questionForm } from "./controls.js";
import { by, command, count, el, foreign, ms, percent, plural, tip } from "./dom.js";
import { GRADES, hit, judging, remarks } from "./hit.js";

/** Rest after a key after which the question counts as asked. */
const REST = 200;
const FIRST = 10;
const STEP = 10;
const MOST = 200;

export function search(app, main) {
    const { ask } = app;
    const help = el("button", { type: "button", class: "link small", onclick: () => keys(app) }, "Keys");
    const { form, chips, input, offer, refilter } = questionForm(app, { submit, changed, help });
    const cost = el("p", { class: "small faint cost" });
    const said = el("p", { role: "status", class: "small said" });
    const start = el("div", { class: "start" });
    const end = el("p", { class: "small faint", hidden: true }, `These are the first ${MOST} hits, and more are not shown. A filter or a narrower question shows others.`);
    const list = el("ol", { class: "hits", "aria-label": "Hits" });
    const more = el("button", { type: "button", hidden: true, onclick: () => further() }, "More hits");
    const narrow = el("details", { class: "narrow", hidden: true });
    main.append(form, chips, start, narrow, said, cost, list, more, end);

    let k = FIRST;
    let shown = null;
    /** Of the hits of one question, by their ids. */
    let grades = { question: null, of: new Map() };
    /** What hits are judged by, in the list and in the reader. */
    let panels = [];
    /** What became of the last judgment: the hit's id and a text. */
    let news = null;
    let timer;
    let told = null;
    // One request at a time; of the questions typed meanwhile only the last one is sent.
    let busy = false;
    let waiting = null;

    function two() {
        return app.about.fast && ask.mode !== "lexical";
    }

    function typed() {
        ask.question = input.value;
        app.keep();
        k = FIRST;
        clearTimeout(timer);
        run({ encoder: two() ? "fast" : undefined, asked: false, rests: false });
        timer = setTimeout(() => settle(true), REST);
    }

    /** Asks the full encoder; a question at which one rests counts as asked, once. */
    function settle(counts) {
        const asked = counts && ask.question !== told;
        if (asked) told = ask.question;
        run({ encoder: two() ? "full" : undefined, asked, rests: true });
    }

    function submit() {
        clearTimeout(timer);
        settle(true);
    }

    async function run(how) {
        if (busy) {
            waiting = how;
            return;
        }
        busy = true;
        try {
            await once(how);
        } finally {
            busy = false;
        }
        if (waiting !== null) {
            const next = waiting;
            waiting = null;
            run(next);
        } else if (how.rests) {
            // The end of the list may have become visible during the request.
            sees.unobserve(more);
            sees.observe(more);
        }
    }

    async function once({ rests, ...how }) {
        const question = ask.question;
        if (question.trim() === "") return empty();
        const found = await app.try(() => post("/api/search", { ...app.asked(k), ...how, grades: app.about.judge && rests, facets: rests }));
        if (question !== ask.question) return;
        if (found) show(found, rests, question);
        // The list shows the hits of another question.
        else if (shown !== null) list.classList.add("stale");
    }

    function empty() {
        shown = null;
        app.alert(null);
        list.replaceChildren();
        cost.textContent = said.textContent = "";
        more.hidden = end.hidden = cost.hidden = said.hidden = narrow.hidden = true;
        start.hidden = false;
        start.replaceChildren(...beginning(app, example));
    }

    function example(question) {
        input.value = ask.question = question;
        app.keep();
        input.focus();
        settle(true);
    }

    function show(found, rests, question) {
        const places = new Map(found.hits.map(({ id }, place) => [id, place]));
        const earlier = rests && two() && shown?.rests === false && shown.question === question ? shown.found : null;
        const compares = earlier?.stats.encoder === "fast" && found.stats.encoder === "full";
        const before = compares ? shown.places : null;
        const at = document.activeElement;
        const [had, grade] = [at?.closest?.(".hit")?.dataset.id, at?.dataset?.grade];
        if (grades.question !== question.trim()) {
            grades = { question: question.trim(), of: new Map() };
            news = null;
        }
        if (rests) grades.of = new Map(found.hits.filter(own => own.grade !== null).map(own => [own.id, own.grade]));
        shown = { rests, question, places, found, before };
        start.hidden = true;
        cost.hidden = said.hidden = false;
        draw();
        if (rests) values(narrow, found.facets, ask.filters, filter);
        if (had !== undefined) focus(had, grade);
        cost.textContent = costs(app, found);
        const all = found.hits.length < k || found.hits.length >= app.about.documents;
        more.hidden = all || k >= MOST;
        end.hidden = all || k < MOST;
        said.textContent = rests ? summary(app, found, before, places) + (earlier?.stats.encoder === "full" && found.hits.length > 0 ? UNSURE : "") : "";
    }

    function draw() {
        const { found, before, question } = shown;
        // That of the reader stays.
        panels = panels.filter(own => !own.element.closest(".hit")).slice(-1);
        const of = own => {
            const panel = judging(own, grades.of.get(own.id) ?? null, (id, grade) => judged(question.trim(), id, grade));
            if (news?.id === own.id) panel.draw(grades.of.get(own.id) ?? null, news.text);
            panels.push(panel);
            return panel;
        };
        list.classList.remove("stale");
        list.replaceChildren(...found.hits.map((own, place) => hit(app, own, place, { before, judging: app.about.judge ? of : null, takeBack: app.about.judge ? takeBack : null, filter, closed })));
    }

    /** On the title of a hit, or on the button of a grade. */
    function focus(id, grade) {
        const own = [...list.children].find(own => own.dataset.id === id);
        const found = own?.querySelector(grade === undefined ? "button" : `[data-grade="${grade}"]`);
        found?.focus();
        return found !== undefined;
    }

    /** Back to the hit that was open, where the list was drawn anew meanwhile; to the question where it has gone. */
    function closed(id) {
        const at = document.activeElement;
        // The browser takes the focus out of the closed dialog a moment later.
        if ((at === document.body || by("reader").contains(at)) && !focus(id)) input.focus();
    }

    function filter(added) {
        if (!ask.filters.some(own => own.filter === added.filter)) ask.filters.push(added);
        app.keep();
        refilter();
        [...chips.querySelectorAll("button")].at(-1).focus();
        changed();
    }

    function changed() {
        k = FIRST;
        clearTimeout(timer);
        settle(false);
    }

    /** The index has changed, and perhaps its tree. */
    function elsewhere() {
        offer();
        settle(false);
    }

    function further() {
        if (busy || more.hidden) return;
        k = Math.min(k + STEP, MOST);
        settle(false);
    }

    async function judged(question, id, grade) {
        const done = await app.try(() => post("/api/judge", { question, id, grade }));
        if (!done) return;
        if (grades.question === question) {
            if (grade === null) grades.of.delete(id);
            else grades.of.set(id, grade);
        }
        const text = grade === null ? "Taken back." : `Judged ${GRADES.find(([value]) => value === grade)[1]}.`;
        if (question !== shown?.question.trim()) return settle(false);
        news = { id, text };
        for (const panel of panels) if (panel.id === id) panel.draw(grade, text);
        // It counts at once.
        settle(false);
    }

    const takeBack = (question, id) => judged(question, id, null);

    // Arrow keys move from the question into the hits and along them.
    main.addEventListener("keydown", event => {
        const buttons = [...list.querySelectorAll("h2 button")];
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step === undefined || event.target.matches("select")) return;
        const at = buttons.findIndex(button => button.closest(".hit").contains(event.target));
        if (at === -1 && event.target !== input) return;
        const next = at + step;
        if (next >= buttons.length) further();
        const target = next < 0 ? input : buttons[Math.min(next, buttons.length - 1)];
        if (!target) return;
        event.preventDefault();
        target.focus();
    });
    list.addEventListener("keydown", event => {
        if (event.key === "Escape") input.focus();
    });
    const sees = new IntersectionObserver(seen => seen.at(-1).isIntersecting && further(), { rootMargin: "200px" });
    sees.observe(more);
    input.addEventListener("input", typed);

    changed();
    input.focus();
    return { leave: () => { clearTimeout(timer); sees.disconnect(); }, changed: elsewhere };
}

/** The values of the hits' fields among all documents that pass the filters. */
function values(narrow, facets, filters, filter) {
    const held = new Set(filters.map(own => own.filter));
    const chip = ({ name, value, filter: own, documents }) => {
        const text = [foreign("span", {}, value), " ", el("span", { class: "faint" }, count(documents))];
        const free = own !== null && !held.has(own);
        return el("li", {}, free
            ? el("button", { type: "button", class: "chip", title: "Only documents with this value", onclick: () => filter({ name, value, filter: own }) }, text)
            : el("span", { class: "chip" }, text));
    };
    const row = ({ name, values, distinct }) => [
        foreign("dt", {}, name),
        el("dd", {}, el("ul", { class: "chips" }, values.map(chip), distinct > values.length ? el("li", { class: "small faint" }, `${count(distinct)} values in all`) : null)),
    ];
    narrow.hidden = facets.length === 0;
    narrow.replaceChildren(el("summary", { class: "small" }, "Values in the documents"), el("dl", {}, facets.map(row)));
}

const UNSURE = " The fast encoder was unsure, so the full encoder read the question at once.";

/** Where nothing is asked: what may be done. */
function beginning({ about }, ask) {
    if (about.documents === 0) {
        return [
            el("p", {}, tip(about, `The index has no documents yet. This command puts the documents of a file into it${about.judge ? "." : ", and this page shows them as they come."}`)),
            el("pre", {}, command(about, "insert", "documents.jsonl")),
        ];
    }
    const examples = about.examples.map(text => el("li", {}, el("button", { type: "button", class: "link", dir: "auto", onclick: () => ask(text) }, text)));
    return [el("div", {},
        el("p", {}, `Type a question, a sentence or some words: the ${plural(about.documents, "document")} of this index that fit best are shown as you type.`),
        examples.length === 0 ? "" : el("h2", {}, "For example"), examples.length === 0 ? "" : el("ul", {}, examples)),
    el("div", {}, el("h2", {}, "Keys"), keyList(about))];
}

function keyList({ judge }) {
    const judges = GRADES.map(([, name, key]) => [key, `judges a hit ${name}`]);
    const all = [
        ["↓ ↑", "into the hits and along them"], ["Enter", "opens a hit"], ["Esc", "closes it, or goes back to the question"],
        ...(judge ? [...judges, ["u", "takes the judgment of a hit back"]] : []),
        ["?", "these keys, from outside of the question"],
    ];
    return el("dl", { class: "keys" }, all.map(([key, text]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, text))));
}

/** The keys, in a dialog. */
export function keys(app) {
    const dialog = by("reader");
    const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
    dialog.onkeydown = dialog.onclose = null;
    dialog.replaceChildren(el("div", { class: "row bar" }, close), el("h2", { id: "reader-title" }, "Keys"), keyList(app.about));
    dialog.showModal();
    close.focus();
}

function costs({ about, ask }, { stats, embeddings }) {
    const part = (name, time) => (time > 0 ? `${name} ${ms(time)}` : null);
    return [
        stats.encoder === null ? null : part(`encode (${stats.encoder})`, stats.encode_ms),
        part("route", stats.beam_ms), part("scan", stats.scan_ms), part("words", stats.lexical_ms), part("fetch", stats.fetch_ms),
        stats.leaves_visited === 0 ? null : `${stats.leaves_visited} of ${count(about.leaves)} leaves`,
        `${count(stats.documents_visited)} of ${count(embeddings)} ${about.unit} visited (${percent(stats.visited_fraction)})`,
        exact(about, ask, stats),
    ].filter(Boolean).join(" · ");
}

/** Why a search that was to choose its leaves used none. */
function exact(about, { reach, filters: { length } }, { leaves_visited: leaves, encoder }) {
    if (leaves > 0 || encoder === null || about.documents === 0 || length > 0 || reach === "exact" || about.leaves === 1) return null;
    return about.few ? "exact, as up to 10,000 always are" : "exact, as no number of leaves is known to be enough";
}

function summary({ ask, about }, found, before, places) {
    const { hits, ranked_by: ranked } = found;
    if (hits.length === 0) return none(ask, about, ranked.mode) + remarks(found);
    const moved = before === null ? 0 : [...places].filter(([id, place]) => before.get(id) !== place).length;
    const change = before === null ? "" : moved === 0 ? " The full encoder agrees with the fast one." : ` The full encoder moved ${plural(moved, "hit")}.`;
    return `${plural(hits.length, "hit")}, ranked ${rankedBy(ranked)}.${change}${remarks(found)}`;
}

function none({ filters: { length } }, about, mode) {
    if (about.documents === 0) return tip(about, `No hits. The index has no documents yet. “${command(about, "insert", "FILE")}” adds some.`);
    if (length > 0) return "No hits. No document with the filters fits: take one off, or ask in other words.";
    return mode === "lexical" ? "No hits. No document has these words: use others, or rank by meaning." : "No hits. Ask in other words.";
}

function rankedBy({ mode, alpha }) {
    if (mode === "dense") return "by meaning";
    if (mode === "lexical") return "by words";
    return alpha === null ? "by meaning and words" : `by meaning (${alpha.toFixed(2)}) and words (${(1 - alpha).toFixed(2)})`;
}
