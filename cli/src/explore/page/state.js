// Documents, size, health, generations, past learnings, and the training report.

import { get } from "./ask.js";
import { bytes, count, el, foreign, percent, plural, table, terms, tip, when } from "./dom.js";
import { training } from "./report.js";

/** Verdicts in words. */
const VERDICTS = {
    changed: "better, used", chosen: "used, as chosen", left: "better, left as chosen", no_gain: "no better, left", worse: "worse, left",
    too_few: "too few judgments", nothing_new: "nothing new",
};

export function state(app, main) {
    const health = el("div", {}, el("p", { class: "faint" }, "Looking …"));
    const [first, files, last] = [el("div", {}), el("div", {}), el("div", {})];
    main.append(first, files, el("h2", {}, "Health"), health, last);
    let newest = 0;

    function look() {
        const own = ++newest;
        const show = (path, fill) => app.try(() => get(path)).then(answer => own === newest && fill(answer));
        show("/api/state", now => {
            if (!now) return;
            first.replaceChildren(...sizes(app, now));
            last.replaceChildren(...history(now), ...training(now));
        });
        show("/api/folders", found => files.replaceChildren(...folders(found ?? [])));
        show("/api/health", found => health.replaceChildren(...(found ? healthy(app, found) : [el("p", { class: "bad" }, "The health could not be read.")])));
    }
    look();
    return { changed: look, leave: () => newest++ };
}

/** A sentence with what stands between backticks as code. */
function prose(properties, text) {
    const parts = text.split("`").map((part, at) => (at % 2 === 1 ? el("code", {}, part) : part));
    return el("p", properties, parts);
}

function sentence(text) {
    const whole = text.charAt(0).toUpperCase() + text.slice(1);
    return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

function byWords({ lexical, fusion }) {
    if (!lexical) return "not kept";
    if (fusion === null) return "kept; whether they help beside the meaning was not measured";
    return fusion.words_help ? `help beside the meaning, with a weight of ${(1 - fusion.alpha).toFixed(2)} of 1` : "kept; they do not help beside the meaning";
}

/** Whether the fast encoder is used, and what it costs in quality. */
function fast({ query_encoder: own }) {
    if (own === null) return "none";
    const used = own.is_default ? "used, with the full one where it is unsure" : "used where it is asked for; otherwise the full one";
    if (own.difference === null) return used;
    const points = own.difference.value * 100;
    return `${used}. On ${plural(own.held_out_questions, "judged question")} its nDCG@10 was ${points < 0 ? "lower" : "higher"} by ${Math.abs(points).toFixed(1)} points of 100`;
}

function sizes({ about }, now) {
    const { bytes: own } = now;
    const rows = [
        ["embeddings", own.vectors], ["documents", own.documents], ["words", own.terms], ["deleted documents", own.dead_rows], ["log of changes", own.log],
        ["model", own.model], ["other models", own.other_models], ["judgments", own.judgments],
        ["unfinished", own.begun],
    ];
    return [
        el("h2", {}, "Index"),
        now.documents === 0 ? el("p", {}, tip(about, "The index has no documents. “ehi insert” adds some.")) : null,
        terms([
            ["Directory", foreign("span", {}, now.path)],
            ["Documents", count(now.documents)],
            ["Stored embeddings", now.dead_rows === 0 ? count(now.rows) : `${count(now.rows)}, of which ${count(now.dead_rows)} belong to deleted or expired documents`],
            ["On disk", `${bytes(own.total)} in ${plural(now.segments, "segment")}`],
            ["Generation", `${count(now.generation)} (it grows with each change)`],
            ["Not yet in a segment", plural(now.memtable_documents, "document")],
            ["Tree", now.leaves === 1 ? "none" : `${count(now.leaves)} leaves, ${count(now.leaves_used)} of them with documents; ${plural(now.height, "level")}`],
            now.leaves === 1 ? null : ["A visited leaf has", `${now.expected_documents_per_leaf.toFixed(1)} documents on average`],
            ["Embeddings", `${now.dim} dimensions, compared by ${now.similarity}`],
            ["Words", byWords(now)],
            ["Fast encoder of questions", fast(now)],
            ["Judgments", count(now.judgments)],
            ["Model", el("code", { class: "small" }, now.model)],
            ["Model before", now.previous_model === null ? "none is kept" : el("code", { class: "small" }, now.previous_model)],
        ]),
        table([["On disk"], ["Size", "number"]], rows.filter(([, size]) => size > 0).map(([name, size]) => [name, bytes(size)]), "Bytes on disk"),
        ...now.notices.map(notice => prose({ class: "warn" }, sentence(notice))),
    ].filter(Boolean);
}

/** How far the index is behind the folders that were inserted. */
function folders(found) {
    if (found.length === 0) return [];
    const rows = found.map(({ path, prefix, documents, behind }) => {
        const files = behind === null ? [] : Object.entries(behind).filter(([, number]) => number > 0);
        const state = behind === null ? "not compared" : files.map(([what, number]) => `${count(number)} ${what}`).join(", ") || "as stored";
        return [foreign("span", {}, prefix === "" ? path : `${prefix.replace(/\/$/, "")}=${path}`), count(documents), state];
    });
    const isBehind = found.some(({ behind }) => behind !== null && behind.new + behind.changed + behind.gone > 0);
    return [
        el("h2", {}, "Folders"),
        table([["Folder", "title"], ["Documents", "number"], ["Files now", "short"]], rows, "Folders"),
        isBehind ? prose({}, "`ehi insert --sync` reads what has changed in a folder, and `ehi watch` follows it.") : null,
    ].filter(Boolean);
}

/** Advice without the terms of the trade. */
function advice({ kind }, words) {
    if (kind === "uncertain_documents") return "The tree is less sure where new documents belong than it was in training: they are unlike those that it was made from.";
    if (kind === "uncertain_queries") return "The tree is less sure where recent questions lead than it was in training.";
    return sentence(words);
}

function healthy({ about }, { health, words, remedies }) {
    const recent = health.documents_routing.recent;
    const said = health.advice.map((own, at) => prose({ class: "warn" }, advice(own, words[at])));
    const load = `${health.skew.toFixed(1)} times as many as with an even load${health.trained_skew === null ? "" : `; ${health.trained_skew.toFixed(1)} times in training`}`;
    return [
        ...(said.length === 0 ? [el("p", { class: "good" }, "The tree fits what is stored. “ehi verify” looks for damage.")] : said),
        // The sentence on how to begin appears once, after the last of them.
        ...remedies.map((text, at) => prose({}, at === remedies.length - 1 ? tip(about, sentence(text)) : sentence(text))),
        health.leaves === 1 ? null : terms([
            ["Leaves without a document", count(health.empty_leaves)],
            ["Largest leaf", health.largest_leaf === null ? "–" : `${health.largest_leaf.leaf}, with ${plural(health.largest_leaf.documents, "document")}`],
            ["Documents in a visited leaf", load],
            recent === null ? null : ["The most probable leaf of a new document", `has ${percent(recent.mean_top_probability)} on average, over the newest ${count(recent.rows)}`],
        ]),
    ].filter(Boolean);
}

function history({ learnings }) {
    const rows = learnings.map(own => [when(own.time), VERDICTS[own.decision] ?? own.decision.replaceAll("_", " "), own.sentence]);
    return [
        el("h2", {}, "Learned so far"),
        rows.length === 0 ? el("p", {}, "Nothing yet.") : table([["When", "when"], ["Verdict", "short"], ["Why", "title"]], rows, "Verdicts so far"),
        rows.length === 0 ? null : el("p", { class: "small faint" }, "Each line is of its time: a model that was used then is in service no more after a return to the model before, or after another change of model."),
    ].filter(Boolean);
}
