// One hit: its passage, its score and what that is made of, its metadata, and judgments of it.

import { el, foreign, marked } from "./dom.js";
import { bytes, score } from "./numbers.js";
import { read } from "./reader.js";

/** Grades with their names and keys. */
export const GRADES = [[0, "wrong", "n"], [1, "right", "y"], [2, "good", "2"], [3, "best", "3"]];

function parts(hit) {
    const of = (name, value, rank) => (value === null ? null : `${name} ${score(value)}${rank === null ? "" : ` (rank ${rank})`}`);
    const both = [of("meaning", hit.dense, hit.dense_rank), of("words", hit.lexical, hit.lexical_rank)].filter(Boolean);
    // One alone is the score.
    return both.length === 2 ? both : [];
}

function moved(hit, place, before) {
    if (before === null || before.get(hit.id) === place) return null;
    const from = before.get(hit.id);
    const text = from === undefined ? "new" : from > place ? `▲ ${from - place}` : `▼ ${place - from}`;
    return el("span", { class: from === undefined || from > place ? "good" : "warn", title: "by the full encoder" }, text);
}

/** `before`: places of the hits by the fast encoder, where this is the answer of the full one. */
export function hit(app, found, place, { before, grade, judge, filter }) {
    const open = () => read(app, found.id, app.ask.question);
    const title = foreign("button", { type: "button", class: "link", onclick: open }, found.title.trim() || found.id);
    const { excerpt } = found;
    const leaf = app.about.leaves === 1 ? null : el("button", { type: "button", class: "link", onclick: () => leafOf(app, found.leaf) }, `leaf ${found.leaf}`);
    const line = [`${place + 1}.`, `score ${score(found.score)}`, ...parts(found), leaf, found.bytes > 10000 ? bytes(found.bytes) : null, moved(found, place, before)];
    const fields = found.fields.map(({ name, value, filter: own }) => {
        const text = `${name}: ${value}`;
        return el("li", {}, own === null
            ? foreign("span", { class: "chip" }, text)
            : foreign("button", { type: "button", class: "chip", title: "Only documents with this value", onclick: () => filter({ name, value, filter: own }) }, text));
    });
    const element = el("li", { class: "hit", "data-id": found.id },
        el("h2", {}, title),
        el("p", { class: "row small faint" }, line.filter(Boolean).map(part => (typeof part === "string" ? el("span", {}, part) : part)),
            foreign("span", {}, found.id)),
        el("p", { class: "excerpt", dir: "auto" }, excerpt.before ? "… " : null, marked(excerpt.stretches), excerpt.behind ? " …" : null),
        fields.length === 0 ? null : el("ul", { class: "chips", "aria-label": "Metadata" }, fields),
        judge === null ? null : grades(found, grade, judge));
    if (judge !== null) element.addEventListener("keydown", event => byKey(event, found, judge));
    return element;
}

function grades(found, grade, judge) {
    const buttons = GRADES.map(([value, name, key]) => el("button", {
        type: "button",
        "aria-pressed": String(grade === value),
        "aria-keyshortcuts": key,
        title: `Key ${key}`,
        onclick: () => judge(found, grade === value ? null : value),
    }, name));
    return el("div", { class: "row small", role: "group", "aria-label": "Judge this hit" }, buttons);
}

function byKey(event, found, judge) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const grade = GRADES.find(([, , key]) => key === event.key) ?? (event.key === "u" ? [null] : undefined);
    if (grade === undefined) return;
    event.preventDefault();
    judge(found, grade[0]);
}

export function leafOf(app, leaf) {
    app.leaf = leaf;
    app.show("leaves");
}
