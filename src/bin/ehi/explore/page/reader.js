// A document in full, read piece by piece.

import { post } from "./ask.js";
import { by, el, foreign, marked } from "./dom.js";
import { bytes } from "./numbers.js";

/** Shows a document, with the words of a question marked. */
export async function read(app, id, question) {
    const first = await app.try(() => post("/api/document", { id, question }));
    if (!first) return;
    const dialog = by("reader");
    const text = el("div", { class: "text", dir: "auto" }, marked(first.stretches));
    const more = el("button", { type: "button" }, "More of the text");
    let next = first.next;
    more.hidden = next === null;
    more.addEventListener("click", async () => {
        more.disabled = true;
        const piece = await app.try(() => post("/api/document", { id, question, from: next }));
        more.disabled = false;
        if (!piece) return;
        next = piece.next;
        more.hidden = next === null;
        text.append(...marked(piece.stretches));
    });
    const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
    dialog.replaceChildren(
        el("div", { class: "row" }, close, el("span", { class: "faint small" }, bytes(first.bytes)), foreign("span", { class: "faint small" }, id)),
        foreign("h2", { id: "reader-title" }, first.title.trim() || first.id),
        text,
        more,
        first.metadata === null ? "" : foreign("pre", { "aria-label": "Metadata" }, first.metadata));
    dialog.showModal();
    close.focus();
}
