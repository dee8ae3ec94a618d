// A document, at the passage that was found.

import { post } from "./ask.js";
import { by, bytes, el, foreign, marked, named, whereabouts } from "./dom.js";

/** Bytes of text for each click. */
const STEP = 128 * 1024;

/** The document that was asked for last: the answers for others come too late. */
let asked = new AbortController();

/**
 * Shows the document of a hit at its best passage, or else where most words of a question are; `judging` is what it is
 * judged by, if at all; `closed` is called when it is not shown any more.
 */
export async function read(app, { id, passages }, question, judging = null, closed = null) {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    const best = passages?.[0];
    const get = where => app.try(() => post("/api/document", { id, question, ...where }, signal));
    const found = await get({ passage: best && { start: best.start, end: best.end } });
    if (!found || signal.aborted) return;
    const dialog = by("reader");
    const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
    const bar = el("div", { class: "row bar" }, close, judging?.element, el("span", { class: "faint small" }, bytes(found.bytes)), foreign("span", { class: "faint small id" }, id), whereabouts(found));
    const lit = found.passage.length === 0 ? null : el("span", { class: whole(found) ? "passage lines" : "passage" }, marked(found.passage));
    const text = el("div", { class: "text", dir: "auto" }, marked(found.above), lit, marked(found.below));
    const [above, below] = ["above", "below"].map(side => more(side, found, text, dialog, get));
    dialog.replaceChildren(
        bar, foreign("h2", { id: "reader-title" }, named(found.title, found.id)), above, text, below,
        found.metadata === null ? "" : foreign("pre", { "aria-label": "Metadata" }, found.metadata));
    dialog.onkeydown = judging?.byKey ?? null;
    dialog.onclose = () => {
        asked.abort();
        closed?.();
    };
    if (!dialog.open) dialog.showModal();
    close.focus();
    dialog.scrollTop = 0;
    if (lit) reveal(dialog, bar, lit);
}

/** Whether the passage is of whole lines. The end of its last line is then that of its box. */
function whole({ above, below }) {
    const is = (above.length === 0 || above.at(-1).text.endsWith("\n")) && (below.length === 0 || below[0].text.startsWith("\n"));
    if (is && below.length > 0) below[0].text = below[0].text.slice(1);
    return is;
}

/** Scrolls to a passage, or to its first marked word where that would be out of sight. */
function reveal(dialog, bar, lit) {
    const free = dialog.clientHeight - bar.offsetHeight;
    const top = element => element.getBoundingClientRect().top - bar.getBoundingClientRect().bottom;
    const word = lit.querySelector("mark");
    const far = word && top(word) - top(lit) > 0.8 * free;
    const at = top(far ? word : lit);
    if (at > free / 2) dialog.scrollTop += at - free / 5;
}

/** The button for the text above or below what is shown. */
function more(side, { start, end, bytes: all }, text, dialog, get) {
    const is = () => (side === "above" ? start > 0 : end < all);
    const button = el("button", { type: "button", class: "more", hidden: !is(), onclick: add }, `More ${side}`);
    async function add() {
        button.disabled = true;
        const found = await get({ part: side === "above" ? { start: Math.max(start - STEP, 0), end: start } : { start: end, end: end + STEP } });
        button.disabled = false;
        if (!found) return;
        const height = dialog.scrollHeight;
        if (side === "above") {
            text.prepend(...marked(found.below));
            start = found.start;
        } else {
            text.append(...marked(found.below));
            end = found.end;
        }
        button.hidden = !is();
        // What is read stays where it is.
        if (side === "above") dialog.scrollTop += dialog.scrollHeight - height;
    }
    return button;
}
