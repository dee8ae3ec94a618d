// Judgments, and learning from them.

import { get, post } from "./ask.js";
import { count, el, foreign, plural, table, when } from "./dom.js";
import { GRADES } from "./hit.js";
import { read } from "./reader.js";

const POLL = 500;
/** How often it is looked whether another page has judged. */
const LOOK = 3000;
/** Judged questions that learning takes, about: a fifth is set aside, and 20 of those are needed. */
const NEEDED = 100;
const STAGES = {
    "begin": "Preparing", "encode": "Encoding the documents", "encode again": "Encoding the documents again", "cluster": "Grouping the documents",
    "start tree": "Starting the tree", "train": "Training", "train tree": "Training the tree", "distil": "Training the fast encoder", "evaluate": "Measuring",
    "questions": "Reading the questions", "calibrate": "Measuring how many leaves a search needs", "compact": "Compacting", "change over": "Changing over", "end": "Finishing",
};
const HEADINGS = {
    changed: "Learned", chosen: "Learned", left: "Not used", no_gain: "Not used", worse: "Not used", too_few: "Too few judgments", nothing_new: "Nothing new",
};

export function teach(app, main) {
    const { judge } = app.about;
    const learn = el("button", { type: "button", class: "main", onclick: () => start("/api/learn") }, "Learn");
    const back = el("button", { type: "button", hidden: true, onclick: () => start("/api/rollback") }, "Return to the model before");
    const job = el("div", { "aria-live": "polite" });
    const judged = judgments(app, judge);
    main.append(el("h2", {}, "Teach"));
    if (judge) {
        main.append(
            el("p", { class: "prose" }, "Judge hits in the view Search; on a hit the keys are n wrong, y right, 2 good, 3 best, and u takes it back. Then let the index learn: it trains on four fifths of the judged questions and measures on the rest. Nothing changes before you have seen the result and chosen."),
            judged.needed, el("div", { class: "row" }, learn, back), job);
    } else {
        main.append(el("p", { class: "prose" }, "The index is open for reading. Start “ehi explore” with “--judge” to judge hits and to let it learn from that."));
    }
    main.append(judged.place);
    let timer;
    let looking;
    let left = false;
    let drawn = null;
    let phase = null;

    async function start(path) {
        const now = await app.try(() => post(path));
        if (now) show(now);
    }

    function show(now) {
        clearTimeout(timer);
        if (left) return;
        const under = now.phase === "running" || now.phase === "deciding";
        const held = [learn, back].includes(document.activeElement) || job.contains(document.activeElement);
        learn.disabled = back.disabled = under;
        // A live region with buttons: redrawn only if its content changes.
        const key = now.phase === "running" ? `running ${now.what}` : JSON.stringify(now);
        if (key !== drawn) {
            job.replaceChildren(...parts(now));
            // Focus the heading, so that a key pressed twice does not decide anything.
            if (held) job.querySelector("h2")?.focus();
        }
        drawn = key;
        if (now.phase === "running") progress(now);
        if ((phase === "running" || phase === "deciding") && !under) refresh();
        phase = now.phase;
        if (under) timer = setTimeout(look, POLL);
    }

    async function look() {
        const now = await app.try(() => get("/api/job"));
        if (now) show(now);
        else if (!left) timer = setTimeout(look, 4 * POLL);
    }

    function progress({ stage, done, total, ending }) {
        const bar = job.querySelector("progress");
        const cancel = job.querySelector("button");
        if (ending && cancel === document.activeElement) job.querySelector("h2").focus();
        cancel.disabled = ending;
        if (total === null) bar.removeAttribute("value");
        else [bar.max, bar.value] = [Math.max(total, 1), done];
        job.querySelector("[data-stage]").textContent = ending ? "Ending …" : `${STAGES[stage] ?? stage}${total === null ? " …" : `: ${count(done)} of ${count(total)}`}`;
    }

    function parts(now) {
        const head = text => el("h2", { tabindex: "-1" }, text);
        const decide = use => () => app.try(() => post("/api/decide", { use })).then(answer => answer && look());
        const choice = (text, use, first) => el("button", { type: "button", class: first ? "main" : null, onclick: decide(use) }, text);
        switch (now.phase) {
            case "running":
                return [head(now.what === "learn" ? "Learning" : "Returning"), el("progress", { "aria-label": "Progress" }),
                    el("p", { class: "row", "aria-live": "off" }, el("span", { "data-stage": true }), el("button", { type: "button", onclick: () => start("/api/cancel") }, "Cancel"))];
            case "deciding": {
                const better = now.learned.decision === "changed";
                return [head("Verdict"), ...verdict(now.learned, result(now.learned)), el("p", {}, "The index is still as before. Use what was learned?"),
                    el("div", { class: "row choice" }, choice("Use it", true, better), choice("Leave it", false, !better))];
            }
            case "learned":
                return [head(HEADINGS[now.learned.decision] ?? "Learning has ended"), ...verdict(now.learned, now.learned.sentence)];
            case "rolled_back":
                return [head("Returned"), el("p", {}, `The model before serves again.${now.change.encoded === 0 ? "" : ` ${plural(now.change.encoded, "document")} were encoded with it.`}`)];
            case "cancelled":
                return [head("Cancelled"), el("p", {}, "Cancelled: the index is as before.")];
            case "failed":
                return [head("It failed"), el("p", { class: "bad" }, now.message)];
            default:
                return [];
        }
    }

    /** Judgments, and whether there is a model to return to: in one call, so that the failure of one stays. */
    async function refresh() {
        const state = judge ? get("/api/state").then(now => (back.hidden = now.previous_model === null)) : null;
        await app.try(() => Promise.all([judged.look(), state]));
    }

    /** Another page's judgments do not make another generation. */
    async function follow() {
        if (!document.hidden) await judged.look().catch(() => {});
        if (!left) looking = setTimeout(follow, LOOK);
    }

    refresh();
    if (judge) look();
    looking = setTimeout(follow, LOOK);
    const leave = () => {
        clearTimeout(timer);
        clearTimeout(looking);
        left = true;
    };
    return { leave, changed: refresh };
}

/** What a learning measured, before it is chosen whether that is used. */
function result({ decision, held_out, ndcg_at_10 }) {
    const first = { changed: "What was learned is better", worse: "What was learned is worse in something" }[decision] ?? "What was learned is not shown to be better: the difference may be chance";
    if (ndcg_at_10 === null) return `${first}.`;
    const { value, against, difference } = ndcg_at_10;
    const points = difference * 100;
    return `${first}. On ${count(held_out)} judged questions that it did not learn from, nDCG@10 is ${value.toFixed(3)} after ${against.toFixed(3)} (${points < 0 ? "" : "+"}${points.toFixed(1)} points).`;
}

function verdict(learned, sentence) {
    const change = own => [foreign("span", {}, own.question), own.before.toFixed(3), own.after.toFixed(3)];
    const of = (title, changes) => (changes.length === 0 ? [] : [el("h3", {}, title), table([["Question", "title"], ["nDCG@10 before", "number"], ["after", "number"]], changes.map(change), title)]);
    return [
        el("p", { class: `prose ${{ changed: "good", worse: "bad" }[learned.decision] ?? ""}` }, sentence),
        learned.ndcg_at_10 === null ? null : el("p", { class: "small faint" }, "nDCG@10 tells how near to the top the right documents stand: 1 where they are first. A point is a hundredth."),
        ...of("Better", learned.better), ...of("Worse", learned.worse),
    ].filter(Boolean);
}

/** The judgments, each with a way to take it back, and how many are needed. */
function judgments(app, may) {
    const place = el("div", {});
    const needed = el("p", {});
    let drawn = null;

    async function look() {
        const known = await get("/api/judgments");
        const key = JSON.stringify(known);
        if (key === drawn) return;
        const focused = place.contains(document.activeElement) ? [...place.querySelectorAll("button")].indexOf(document.activeElement) : null;
        drawn = key;
        draw(known);
        // Focus the judgment that moved up.
        if (focused === null) return;
        const buttons = [...place.querySelectorAll("button")];
        (buttons[Math.min(focused, buttons.length - 1)] ?? place.querySelector("h2")).focus();
    }

    const undo = ({ question, id }) => () => app.try(async () => {
        await post("/api/judge", { question, id, grade: null });
        await look();
    });

    function draw(known) {
        const enough = known.questions >= NEEDED;
        needed.textContent = `Learning needs about ${NEEDED} judged questions with a right document. There ${known.questions === 1 ? "is" : "are"} ${count(known.questions)}${enough ? "" : " so far"}.`;
        const rows = known.judgments.map(own => [
            foreign("span", {}, own.question),
            own.title === null
                ? el("span", { class: "faint" }, foreign("span", {}, own.id), " (no such document)")
                : foreign("button", { type: "button", class: "link", onclick: () => read(app, own, own.question) }, own.title.trim() || own.id),
            GRADES.find(([grade]) => grade === own.grade)?.[1] ?? String(own.grade), when(own.time),
            ...(may ? [el("button", { type: "button", "aria-label": `Undo: ${own.question}, ${own.id}`, onclick: undo(own) }, "Undo")] : []),
        ]);
        const text = `${plural(known.all, "judgment")}; ${plural(known.questions, "question")} with a right document.${known.all > known.judgments.length ? ` The newest ${count(known.judgments.length)} are shown.` : ""}`;
        place.replaceChildren(el("h2", { tabindex: "-1" }, "Judgments"), el("p", {}, text),
            ...(known.all === 0 ? [] : [table([["Question", "title"], ["Document", "title"], ["Grade", "short"], ["When", "when"], ...(may ? [["Take back", "short"]] : [])], rows, "Judgments")]));
    }

    return { place, needed, look };
}
