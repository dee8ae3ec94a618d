// Documents, size, health, generations, what was learned so far, the training's report.

import { get } from "./ask.js";
import { el, foreign, table, terms } from "./dom.js";
import { bytes, count, percent, plural, when } from "./numbers.js";

export function state(app, main) {
    const health = el("div", {}, el("p", { class: "faint" }, "Looking …"));
    const [first, last] = [el("div", {}), el("div", {})];
    main.append(first, el("h2", {}, "Health"), health, last);

    async function look() {
        const now = await app.try(() => get("/api/state"));
        if (now) {
            first.replaceChildren(...sizes(now));
            last.replaceChildren(...history(now), ...training(now));
        }
        const found = await app.try(() => get("/api/health"));
        if (found) health.replaceChildren(...healthy(found));
    }
    look();
    return { changed: look };
}

function sizes(now) {
    const { bytes: own } = now;
    const words = now.fusion === null ? now.lexical ? "can be searched; how much they count was not learned" : "not kept" : now.fusion.words_help ? `help, weight ${(1 - now.fusion.alpha).toFixed(2)}` : "do not help";
    return [
        el("h2", {}, "Index"),
        terms([
            ["Directory", foreign("span", {}, now.path)],
            ["Documents", count(now.documents)],
            ["Rows", `${count(now.rows)}, ${count(now.dead_rows)} of deleted documents`],
            ["On disk", `${bytes(own.total)} in ${plural(now.segments, "segment")}`],
            ["Generation", count(now.generation)],
            ["Not flushed", count(now.memtable_documents)],
            ["Tree", now.leaves === 1 ? "none" : `${count(now.leaves)} leaves, ${count(now.leaves_used)} used, ${plural(now.height, "level")}`],
            ["A visited leaf has", `${now.expected_documents_per_leaf.toFixed(1)} documents on average`],
            ["Embeddings", `${now.dim} dimensions, ${now.similarity}`],
            ["Words", words],
            ["Fast encoder of questions", now.query_encoder === null ? "none" : now.query_encoder.sentence],
            ["Judgments", count(now.judgments)],
            ["Model", el("code", { class: "small" }, now.model)],
            ["Model before", now.previous_model === null ? "none is kept" : el("code", { class: "small" }, now.previous_model)],
        ]),
        table([["Of"], ["Bytes", "number"]], [
            ["embeddings", bytes(own.vectors)], ["documents", bytes(own.documents)], ["words", bytes(own.terms)],
            ["deleted documents", bytes(own.dead_rows)], ["log", bytes(own.log)], ["model", bytes(own.model)],
            ["other models", bytes(own.other_models)], ["judgments", bytes(own.judgments)],
        ], "Bytes on disk"),
        ...now.notices.map(notice => el("p", { class: "warn" }, notice)),
    ];
}

function healthy({ health, words, remedies }) {
    const routing = health.documents_routing.recent;
    return [
        ...(words.length === 0 ? [el("p", { class: "good" }, "Nothing stands out.")] : words.map(text => el("p", { class: "warn" }, text))),
        ...remedies.map(text => el("p", {}, text)),
        terms([
            ["Empty leaves", count(health.empty_leaves)],
            ["Largest leaf", health.largest_leaf === null ? "–" : `${health.largest_leaf.leaf}, ${plural(health.largest_leaf.documents, "document")}`],
            ["Load", `${health.skew.toFixed(2)} times even${health.trained_skew === null ? "" : `, ${health.trained_skew.toFixed(2)} in training`}`],
            routing === null ? null : ["New documents", `entropy ${routing.mean_entropy.toFixed(2)} nats over the newest ${count(routing.rows)}`],
        ]),
    ];
}

function history({ learnings }) {
    const rows = learnings.map(own => [when(own.time), own.decision.replace("_", " "), own.sentence]);
    return [el("h2", {}, "Learned so far"), rows.length === 0 ? el("p", {}, "Nothing yet.") : table([["When"], ["Verdict"], ["Why"]], rows, "Verdicts so far")];
}

function training({ report }) {
    if (report === null) return [el("h2", {}, "Training report"), el("p", {}, "The model came without one.")];
    const { verdict } = report;
    const methods = (verdict?.methods ?? []).filter(own => own.at.some(({ figures }) => figures !== null));
    const shares = methods[0]?.at.map(own => own.visited_fraction) ?? [];
    const cell = figures => (figures === null ? "–" : (figures["recall@10"] * 100).toFixed(1));
    const heads = [["Recall@10 at"], ...shares.map(share => [percent(share), "number"])];
    const losses = report.epochs ?? [];
    return [
        el("h2", {}, "Training report"),
        verdict ? el("p", {}, verdict.sentence) : null,
        el("p", { class: "faint" }, `${plural(report.documents, "document")}; ${plural(report.train_queries, "training question")} with ${plural(report.train_pairs, "answer")}; ${plural(report.dev_queries, "question")} set aside; ${Math.round(report.seconds)} s; ehi ${report.version}.`),
        methods.length === 0 ? null : table(heads, methods.map(own => [own.method.replaceAll("_", " "), ...own.at.map(({ figures }) => cell(figures))]), "Recall at ten by share of documents visited"),
        losses.length === 0 ? null : el("p", { class: "faint" }, `Loss ${losses[0].loss.toFixed(3)} in the first of ${plural(losses.length, "pass", "passes")}, ${losses.at(-1).loss.toFixed(3)} in the last.`),
    ].filter(Boolean);
}
