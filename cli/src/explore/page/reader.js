// A document in full.

import { post } from "./ask.js";
import { by, bytes, el, foreign, marked, named } from "./dom.js";

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
    const found = await app.try(() => post("/api/document", { id, question }, signal));
    if (!found || signal.aborted) return;
    const dialog = by("reader");
    const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
    dialog.replaceChildren(
        el("div", { class: "row bar" }, close, judging?.element, el("span", { class: "faint small" }, bytes(found.bytes)), foreign("span", { class: "faint small id" }, id)),
        foreign("h2", { id: "reader-title" }, named(found.title, found.id)),
        el("div", { class: "text", dir: "auto" }, marked(found.stretches)),
        found.is_cut ? el("p", { class: "faint" }, "The beginning of the text; “ehi get” prints all of it.") : "",
        found.metadata === null ? "" : foreign("pre", { "aria-label": "Metadata" }, found.metadata));
    dialog.onkeydown = judging?.byKey ?? null;
    dialog.onclose = () => {
        asked.abort();
        closed?.();
    };
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    close.focus();
}
