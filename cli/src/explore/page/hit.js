// One hit: its passage, its score with components, its metadata and its judgments.

import { bytes, el, foreign, marked, named, score, whereabouts } from "./dom.js";
import { read } from "./reader.js";

/** Grades with their names and keys. */
export const GRADES = [[0, "wrong", "n"], [1, "right", "y"], [2, "good", "2"], [3, "best", "3"]];

function parts(hit) {
    const of = (name, value, rank) => (value === null ? null : `${name} ${score(value)}${rank === null ? "" : ` (rank ${rank})`}`);
    const both = [of("meaning", hit.dense, hit.dense_rank), of("words", hit.lexical, hit.lexical_rank)].filter(Boolean);
    // A single component is the score itself.
    return both.length === 2 ? both : [];
}

function moved(hit, place, before) {
    if (before === null || before.get(hit.id) === place) return null;
    const from = before.get(hit.id);
    const text = from === undefined ? "new" : from > place ? `▲ ${from - place}` : `▼ ${place - from}`;
    return el("span", { class: from === undefined || from > place ? "good" : "warn", title: "by the full encoder" }, text);
}

/**
 * `before`: places of the hits by the fast encoder, where this is the answer of the full one. `judging` makes what a
 * hit is judged by, where it can be, and `takeBack` takes a judgment back. `closed` hears when its document is not
 * shown any more.
 */
export function hit(app, found, place, { before, judging, takeBack, filter, closed }) {
    const open = () => read(app, found, app.ask.question, judging?.(found), () => closed(found.id));
    const name = named(found.title, found.id);
    const own = judging?.(found);
    const element = el("li", { class: "hit", "data-id": found.id },
        foreign("h2", {}, el("button", { type: "button", class: "link", onclick: open }, name)),
        whereabouts(found.excerpt),
        el("p", { class: "excerpt", dir: "auto" }, found.excerpt.before ? "… " : null, marked(found.excerpt.stretches), found.excerpt.behind ? " …" : null),
        because(found, takeBack),
        el("div", { class: "about" }, numbers(app, found, place, before, name), fields(found, filter), own?.element));
    if (own) element.addEventListener("keydown", own.byKey);
    return element;
}

function numbers(app, found, place, before, name) {
    const leaf = app.about.leaves === 1 ? null : el("button", { type: "button", class: "link", onclick: () => leafOf(app, found.leaf) }, `leaf ${found.leaf}`);
    const line = [`${place + 1}.`, `score ${score(found.score)}`, ...parts(found), leaf, found.bytes > 10000 ? bytes(found.bytes) : null, moved(found, place, before)];
    return el("p", { class: "row small faint" },
        line.filter(Boolean).map(part => (typeof part === "string" ? el("span", {}, part) : part)),
        name === found.id ? null : foreign("span", { class: "id" }, found.id));
}

/** The judgment that moved the hit noticeably. */
function because({ id, judged, memory }, takeBack) {
    if (!judged) return null;
    const said = foreign("q", {}, judged.question);
    const undo = takeBack && el("button", { type: "button", class: "link", onclick: () => takeBack(judged.question, id) }, "take back");
    return el("p", { class: "row small because" }, el("span", {}, memory > 0 ? "▲ judged for " : "▼ judged for ", said, judged.stale ? " (replaced since)" : ""), undo);
}

function fields(found, filter) {
    if (found.fields.length === 0) return null;
    const chip = ({ name, value, filter: own }) => {
        const text = `${name}: ${value}`;
        return el("li", {}, own === null
            ? foreign("span", { class: "chip" }, text)
            : foreign("button", { type: "button", class: "chip", title: "Only documents with this value", onclick: () => filter({ name, value, filter: own }) }, text));
    };
    return el("ul", { class: "chips", "aria-label": "Metadata" }, found.fields.map(chip));
}

/** Buttons and keys that judge a hit. `draw` shows the grade that it has, and what became of a judgment. */
export function judging({ id }, grade, judge) {
    const buttons = GRADES.map(([value, name, key]) => el("button", {
        type: "button",
        "data-grade": value,
        "aria-keyshortcuts": key,
        title: `Key ${key}`,
        onclick: event => judge(id, event.target.getAttribute("aria-pressed") === "true" ? null : value),
    }, name));
    const said = el("span", { role: "status" });
    const element = el("div", { class: "row small judging", role: "group", "aria-label": "Judge this hit", "data-judged": id }, buttons, said);
    const draw = (now, text) => {
        buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(GRADES[at][0] === now)));
        said.textContent = text;
    };
    draw(grade, "");
    return { id, element, draw, byKey: event => byKey(event, id, judge) };
}

function byKey(event, id, judge) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const grade = GRADES.find(([, , key]) => key === event.key) ?? (event.key === "u" ? [null] : undefined);
    if (grade === undefined) return;
    event.preventDefault();
    judge(id, grade[0]);
}

export function leafOf(app, leaf) {
    app.leaf = leaf;
    app.show("leaves");
}

/** What hits must have and must not, by the signs of the question, and what else should be known of a result. */
export function remarks({ signs, notes }) {
    const all = (words, phrases) => [...words, ...phrases.map(own => `“${own}”`)].join(", ");
    const [must, never] = [all(signs.required, signs.phrases), all(signs.excluded, signs.excluded_phrases)];
    const heeded = signs.ignored ? "" : `${must && ` Every hit has ${must}.`}${never && ` No hit has ${never}.`}${signs.as_text.length > 0 ? ` Read as text: ${signs.as_text.join(", ")}.` : ""}`;
    return heeded + notes.map(note => ` Note: ${note}.`).join("");
}
