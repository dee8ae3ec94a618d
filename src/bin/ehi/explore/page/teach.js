// What the index was told, and what it makes of it.

import { get, post } from "./ask.js";
import { el, foreign, table } from "./dom.js";
import { count, plural, when } from "./numbers.js";
import { read } from "./reader.js";

const POLL = 500;

export function teach(app, main) {
    if (!app.about.judge) {
        main.append(el("h2", {}, "Teach"), el("p", {}, "The index is open for reading. Start “ehi explore” with “--judge” to judge hits and to let it learn from that."));
        list(app, main, false);
        return undefined;
    }
    const learn = el("button", { type: "button", class: "main", onclick: () => start("/api/learn") }, "Learn");
    const back = el("button", { type: "button", onclick: () => start("/api/rollback") }, "Return to the model before");
    const job = el("div", { "aria-live": "polite" });
    const judged = el("div", {});
    main.append(el("h2", {}, "Teach"),
        el("p", {}, "Judge hits in the view Search: n wrong, y right, 2 good, 3 best, u takes it back. Then let the index learn: it trains on four fifths of the judged questions and measures on the rest."),
        el("div", { class: "row" }, learn, back), job, judged);
    let timer;
    let phase = null;

    async function start(path) {
        const now = await app.try(() => post(path));
        if (now) show(now);
    }

    function show(now) {
        clearTimeout(timer);
        const under = now.phase === "running" || now.phase === "deciding";
        learn.disabled = back.disabled = under;
        // A region that is read out: only what changed is put into it.
        if (now.phase !== phase || now.phase !== "running") job.replaceChildren(...drawn(now));
        if (now.phase === "running") progress(now);
        if (phase === "running" && !under || phase === "deciding" && !under) refresh();
        phase = now.phase;
        if (under) timer = setTimeout(look, POLL);
    }

    async function look() {
        const now = await app.try(() => get("/api/job"));
        if (now) show(now);
        else timer = setTimeout(look, 4 * POLL);
    }

    function progress({ stage, done, total }) {
        const bar = job.querySelector("progress");
        if (total === null) bar.removeAttribute("value");
        else [bar.max, bar.value] = [Math.max(total, 1), done];
        job.querySelector("[data-stage]").textContent = `${stage} ${total === null ? "" : `${count(done)} of ${count(total)}`}`;
    }

    function drawn(now) {
        const cancel = el("button", { type: "button", onclick: () => start("/api/cancel") }, "Cancel");
        const decide = use => () => app.try(() => post("/api/decide", { use })).then(answer => answer && look());
        switch (now.phase) {
            case "running":
                return [el("h2", {}, now.what === "learn" ? "Learning" : "Returning"), el("progress", { "aria-label": "Progress" }),
                    el("p", { class: "row", "aria-live": "off" }, el("span", { "data-stage": true }), cancel)];
            case "deciding":
                return [el("h2", {}, "Verdict"), ...verdict(now.learned),
                    el("div", { class: "row" }, el("button", { type: "button", class: now.learned.decision === "changed" ? "main" : "", onclick: decide(true) }, "Use it"),
                        el("button", { type: "button", class: now.learned.decision === "changed" ? "" : "main", onclick: decide(false) }, "Leave it"))];
            case "learned":
                return [el("h2", {}, "Learned"), ...verdict(now.learned)];
            case "rolled_back":
                return [el("h2", {}, "Returned"), el("p", {}, `The model before serves again. ${plural(now.change.encoded, "document")} were encoded with it.`)];
            case "cancelled":
                return [el("p", {}, "Cancelled: the index is as before.")];
            case "failed":
                return [el("p", { class: "bad" }, now.message)];
            default:
                return [];
        }
    }

    async function refresh() {
        await list(app, judged, true);
        const now = await app.try(() => get("/api/state"));
        if (now) back.hidden = now.previous_model === null;
    }

    refresh();
    look();
    return { leave: () => clearTimeout(timer), changed: refresh };
}

function verdict(learned) {
    const change = own => [foreign("span", {}, own.question), own.before.toFixed(3), own.after.toFixed(3)];
    const of = (title, changes) => (changes.length === 0 ? [] : [el("h3", {}, title), table([["Question"], ["nDCG@10 before", "number"], ["after", "number"]], changes.map(change), title)]);
    return [
        el("p", { class: { changed: "good", worse: "bad" }[learned.decision] ?? "" }, learned.sentence),
        ...of("Better", learned.better), ...of("Worse", learned.worse),
    ];
}

/** The judgments, each with a way to take it back. */
async function list(app, place, may) {
    const known = await app.try(() => get("/api/judgments"));
    if (!known) return;
    const undo = ({ question, id }) => async () => {
        if (await app.try(() => post("/api/forget", { question, id }))) await list(app, place, may);
    };
    const rows = known.judgments.map(own => [
        foreign("span", {}, own.question),
        own.title === null ? foreign("span", { class: "faint" }, `${own.id} (no such document)`) : foreign("button", { type: "button", class: "link", onclick: () => read(app, own.id, own.question) }, own.title.trim() || own.id),
        String(own.grade), when(own.time),
        ...(may ? [el("button", { type: "button", "aria-label": `Undo: ${own.question}, ${own.id}`, onclick: undo(own) }, "Undo")] : []),
    ]);
    const head = el("h2", {}, "Judgments");
    const text = `${plural(known.all, "judgment")}; ${plural(known.questions, "question")} with an answer.${known.all > known.judgments.length ? ` The newest ${count(known.judgments.length)} are shown.` : ""}`;
    const body = known.all === 0 ? [] : [table([["Question"], ["Document"], ["Grade", "number"], ["When"], ...(may ? [["Take back"]] : [])], rows, "Judgments")];
    if (may) place.replaceChildren(head, el("p", {}, text), ...body);
    else place.append(head, el("p", {}, text), ...body);
}
