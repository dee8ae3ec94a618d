// A document in full, read piece by piece.

import { post } from "./ask.js";
import { by, el, foreign, marked, named } from "./dom.js";
import { bytes } from "./numbers.js";

/** The document that was asked for last: the answers for others come too late. */
let asked = new AbortController();

/**
 * Shows a document, with the words of a question marked; `judging` is what it is judged by, if at all; `closed` is
 * called when it is not shown any more.
 */
export async function read(app, id, question, judging = null, closed = null) {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    const first = await app.try(() => post("/api/document", { id, question }, signal));
    if (!first || signal.aborted) return;
    const dialog = by("reader");
    const text = el("div", { class: "text", dir: "auto" }, marked(first.stretches));
    const more = el("button", { type: "button", hidden: first.next === null }, "More of the text");
    const failed = el("p", { role: "alert", class: "bad" });
    let next = first.next;
    more.addEventListener("click", async () => {
        more.disabled = true;
        failed.textContent = "";
        try {
            const piece = await post("/api/document", { id, question, from: next, version: first.version }, signal);
            next = piece.next;
            text.append(...marked(piece.stretches));
        } catch (error) {
            if (error.name !== "AbortError") failed.textContent = error.message;
        }
        more.disabled = false;
        more.hidden = next === null;
    });
    const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
    dialog.replaceChildren(
        el("div", { class: "row bar" }, close, judging?.element, el("span", { class: "faint small" }, bytes(first.bytes)), foreign("span", { class: "faint small id" }, id)),
        foreign("h2", { id: "reader-title" }, named(first.title, first.id)),
        text,
        el("div", { class: "row" }, more, failed),
        first.metadata === null ? "" : foreign("pre", { "aria-label": "Metadata" }, first.metadata));
    dialog.onkeydown = judging?.byKey ?? null;
    dialog.onclose = () => {
        asked.abort();
        closed?.();
    };
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    close.focus();
}
