// Hits while one types: by the fast encoder at once, by the full one a moment later.

import { get, post } from "./ask.js";
import { controls, filters } from "./controls.js";
import { el } from "./dom.js";
import { hit } from "./hit.js";
import { count, ms, percent, plural } from "./numbers.js";

/** Rest after a key after which the question counts as asked. */
const REST = 200;
const FIRST = 10;
const STEP = 10;
const MOST = 200;

export function search(app, main) {
    const { ask } = app;
    const options = el("div", { class: "row" });
    const chips = el("ul", { class: "chips", "aria-label": "Filters" });
    const cost = el("p", { class: "small faint" });
    const said = el("p", { role: "status", class: "small" });
    const list = el("ol", { class: "hits", "aria-label": "Hits" });
    const more = el("button", { type: "button", hidden: true, onclick: () => further() }, "More hits");
    const input = el("input", { type: "search", id: "question", value: ask.question, autocomplete: "off", spellcheck: "false", enterkeyhint: "search" });
    const form = el("form", { class: "ask", role: "search", onsubmit: asked },
        el("div", { class: "question" }, el("label", { for: "question" }, "Question"), input), options);
    main.append(form, chips, cost, said, list, more);

    let k = FIRST;
    let shown = null;
    let grades = new Map();
    let timer;
    let told = null;
    // One request at a time; of the questions that come meanwhile the last one counts.
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
        run({ encoder: two() ? "fast" : undefined, asked: false });
        timer = setTimeout(() => settle(true), REST);
    }

    /** Asks the full encoder; a question at which one rests counts as asked, once. */
    function settle(rests) {
        const asked = rests && ask.question !== told;
        if (asked) told = ask.question;
        run({ encoder: two() ? "full" : undefined, asked });
    }

    function asked(event) {
        event.preventDefault();
        clearTimeout(timer);
        settle(true);
    }

    async function run(how) {
        if (busy) {
            waiting = how;
            return;
        }
        busy = true;
        const question = ask.question;
        if (question.trim() === "") {
            empty();
        } else {
            const found = await app.try(() => post("/api/search", { ...app.asked(k), ...how }));
            if (found && question === ask.question) show(found, how, question);
        }
        busy = false;
        if (waiting !== null) {
            const next = waiting;
            waiting = null;
            run(next);
        }
    }

    function empty() {
        shown = null;
        list.replaceChildren();
        cost.textContent = said.textContent = "";
        more.hidden = true;
    }

    function show(found, how, question) {
        const places = new Map(found.hits.map(({ id }, place) => [id, place]));
        const compares = how.encoder === "full" && shown?.encoder === "fast" && shown.question === question;
        const before = compares ? shown.places : null;
        const had = document.activeElement?.closest?.(".hit")?.dataset.id;
        shown = { encoder: how.encoder, question, places, found, before };
        draw();
        if (had !== undefined) [...list.children].find(own => own.dataset.id === had)?.querySelector("button")?.focus();
        cost.textContent = costs(app, found);
        more.hidden = found.hits.length < k || k >= MOST;
        if (how.encoder !== "fast") said.textContent = summary(found, before, places);
    }

    function draw() {
        const { found, before } = shown;
        const judge = app.about.judge ? judged : null;
        const of = (own, place) => hit(app, own, place, { before, grade: grades.get(own.id), judge, filter });
        list.replaceChildren(...found.hits.map(of));
    }

    function filter(added) {
        if (!ask.filters.some(own => own.name === added.name && own.value === added.value)) ask.filters.push(added);
        changed();
    }

    function changed() {
        app.keep();
        k = FIRST;
        options.replaceChildren(...controls(app, changed));
        chips.replaceChildren(...filters(app, changed));
        settle(false);
        input.focus();
    }

    function further() {
        if (busy || more.hidden) return;
        k = Math.min(k + STEP, MOST);
        settle(false);
    }

    /** Judgments of the question at hand. */
    async function learnt() {
        const known = app.about.judge ? await app.try(() => get("/api/judgments")) : undefined;
        app.judgments = known?.judgments ?? [];
        mine();
    }

    function mine() {
        const question = ask.question.trim();
        const own = (app.judgments ?? []).filter(judgment => judgment.question === question);
        grades = new Map(own.map(({ id, grade }) => [id, grade]));
        if (shown !== null) draw();
    }

    async function judged({ id, title }, grade) {
        const question = shown.question.trim();
        const done = await app.try(() => (grade === null ? post("/api/forget", { question, id }) : post("/api/judge", { question, id, grade })));
        if (!done) return;
        app.judgments = app.judgments.filter(own => own.question !== question || own.id !== id);
        if (grade !== null) app.judgments.push({ question, id, grade });
        const had = document.activeElement?.textContent;
        mine();
        const element = [...list.children].find(own => own.dataset.id === id);
        const buttons = [...(element?.querySelectorAll("button") ?? [])];
        (buttons.find(button => button.textContent === had) ?? buttons[0])?.focus();
        said.textContent = grade === null ? `The judgment of “${title || id}” is taken back.` : `“${title || id}” is judged ${grade}.`;
    }

    // Down from the question into the hits, and along them.
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
    const sees = new IntersectionObserver(seen => seen.some(own => own.isIntersecting) && further(), { rootMargin: "200px" });
    sees.observe(more);
    input.addEventListener("input", () => {
        typed();
        if (app.about.judge) mine();
    });

    options.append(...controls(app, changed));
    chips.append(...filters(app, changed));
    input.focus();
    learnt();
    if (ask.question.trim() !== "") settle(false);
    return { leave: () => { clearTimeout(timer); sees.disconnect(); }, changed: () => settle(false) };
}

function costs(app, { stats, embeddings }) {
    const part = (name, time) => (time > 0 ? `${name} ${ms(time)}` : null);
    const encoder = stats.encoder === null ? "" : ` (${stats.encoder})`;
    const leaves = stats.leaves_visited === 0 ? null : `${stats.leaves_visited} of ${count(app.about.leaves)} leaves`;
    return [
        part(`encode${encoder}`, stats.encode_ms), part("route", stats.beam_ms), part("scan", stats.scan_ms),
        part("words", stats.lexical_ms), part("fetch", stats.fetch_ms), leaves,
        `${count(stats.documents_visited)} of ${count(embeddings)} ${app.about.unit} visited (${percent(stats.visited_fraction)})`,
    ].filter(Boolean).join(" · ");
}

function summary({ hits, ranked_by: by }, before, places) {
    if (hits.length === 0) return "No hits. Take a filter off, or ask in other words.";
    const ranked = rankedBy(by);
    const moved = before === null ? 0 : [...places].filter(([id, place]) => before.get(id) !== place).length;
    const change = before === null ? "" : moved === 0 ? " The full encoder agrees with the fast one." : ` The full encoder moved ${plural(moved, "hit")}.`;
    return `${plural(hits.length, "hit")}, ranked ${ranked}.${change}`;
}

function rankedBy({ mode, alpha }) {
    if (mode === "dense") return "by meaning";
    if (mode === "lexical") return "by words";
    return alpha === null ? "by meaning and words" : `by meaning (${alpha.toFixed(2)}) and words (${(1 - alpha).toFixed(2)})`;
}
