// The report of the training that made the model: its verdict, curves and tables.

import { el, percent, plural, svg, table, terms } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, FOOT] = [640, 320, 56, 44];
const LOSSES = [["total", "loss"], ["siamese"], ["indexing"], ["intra-leaf", "intra_leaf"], ["balance"], ["distillation"]];

const words = name => name.replaceAll("_", " ");
const points = share => (share * 100).toFixed(1);

/** Lines of `{ name, dashed, points: [[x, y], …] }`, x from 0 to the last of `ticks`, y from `low` to `high`. */
function plot(title, lines, ticks, [low, high], write) {
    const x = at => LEFT + at / Math.max(ticks.length - 1, 1) * (WIDTH - LEFT - 20);
    const y = value => 10 + (high - value) / (high - low) * (HEIGHT - 10 - FOOT);
    const every = Math.ceil(ticks.length / 11);
    const levels = [0, 0.25, 0.5, 0.75, 1].map(share => low + share * (high - low));
    return el("figure", {},
        el("figcaption", {}, title),
        svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
            levels.map(level => [svg("line", { x1: LEFT, x2: WIDTH - 20, y1: y(level), y2: y(level) }), svg("text", { x: LEFT - 8, y: y(level) + 5, "text-anchor": "end" }, write(level))]),
            ticks.map((tick, at) => at % every === 0 && svg("text", { x: x(at), y: HEIGHT - FOOT + 24, "text-anchor": "middle" }, tick)),
            lines.map(({ dashed, points: own }, at) => svg("polyline", { class: `s${at}${dashed ? " dashed" : ""}`, points: own.map(([place, value]) => `${x(place)},${y(value)}`).join(" ") }))),
        el("p", { class: "row small legend" }, lines.map(({ name, dashed }, at) => el("span", {}, el("span", { class: `stroke s${at}${dashed ? " dashed" : ""}` }), name))));
}

function recall(methods, metric) {
    const lines = methods.map(({ method, at }) => {
        const own = at.flatMap(({ figures }, place) => (figures === null ? [] : [[place, figures[metric]]]));
        // Exact search visits everything: its level is drawn over the whole width.
        return { name: words(method), dashed: method.startsWith("base"), points: own.length === 1 ? [[0, own[0][1]], own[0]] : own };
    });
    const low = Math.floor(Math.min(...lines.flatMap(line => line.points.map(([, value]) => value))) * 10) / 10;
    const ticks = methods[0].at.map(own => percent(own.visited_fraction));
    return plot(`${metric} by the share of documents visited`, lines, ticks, [Math.min(low, 0.9), 1], value => `${Math.round(value * 100)}%`);
}

function losses(epochs) {
    const lines = LOSSES.map(([name, field = name]) => ({ name, points: epochs.map((own, at) => [at, own[field]]) }));
    const used = lines.filter(line => line.points.some(([, value]) => value !== 0));
    const high = Math.max(...used.flatMap(line => line.points.map(([, value]) => value)), 1e-9);
    return plot("Terms of the loss by pass, unweighted except the total", used, epochs.map(own => String(own.epoch)), [0, high], value => value.toFixed(2));
}

function loads(passes) {
    const line = (name, field, dashed) => ({ name, dashed, points: passes.map((own, at) => [at, own[field]]) });
    const lines = [line("expected", "expected_documents_per_leaf"), line("at an even load", "ideal_documents_per_leaf", true)];
    const high = Math.max(...lines.flatMap(own => own.points.map(([, value]) => value)), 1);
    return plot("Documents in a visited leaf, by pass", lines, passes.map(own => String(own.epoch)), [0, high], value => value.toFixed(1));
}

function differences({ comparisons }) {
    const rows = comparisons.filter(own => own.difference !== null).map(({ method, against, visited_fraction: share, metric, difference: own }) =>
        [`${words(method)} against ${words(against)}`, method === "trained_exact" ? "all" : percent(share), metric, points(own.value), points(own.against), points(own.difference), own.bootstrap_p?.toFixed(4) ?? "–"]);
    return rows.length === 0 ? [] : [table([["Difference", "title"], ["Visited", "number"], ["Metric", "short"], ["This", "number"], ["That", "number"], ["Points", "number"], ["p", "number"]], rows, "Differences between methods")];
}

export function training({ report }) {
    if (report === null) return [el("h2", {}, "Training report"), el("p", {}, "The model came without one.")];
    const { verdict, before, after } = report;
    const methods = (verdict?.methods ?? []).filter(own => own.at.some(({ figures }) => figures !== null));
    const epochs = report.epochs ?? [];
    const cell = ({ figures }) => (figures === null ? "–" : points(figures["recall@10"]));
    const load = name => `${before[name].toFixed(1)} before, ${after[name].toFixed(1)} after`;
    return [
        el("h2", {}, "Training report"),
        verdict ? el("p", {}, verdict.sentence) : null,
        verdict ? el("p", { class: "small faint" }, "Points are hundredths. p is how probable a difference as large would be by chance; the interval is where the true one lies, with 95%.") : null,
        el("p", { class: "faint" }, `${plural(report.documents, "document")}; ${plural(report.train_queries, "training question")} with ${plural(report.train_pairs, "answer")}; ${plural(report.dev_queries, "question")} set aside; ${Math.round(report.seconds)} s; ehi ${report.version}.`),
        ...(methods.length === 0 ? [] : [
            table([["Recall@10 at"], ...methods[0].at.map(own => [percent(own.visited_fraction), "number"])], methods.map(own => [words(own.method), ...own.at.map(cell)]), "Recall at ten by share of documents visited"),
            el("div", { class: "plots" }, recall(methods, "recall@10"), recall(methods, "recall@100")), ...differences(verdict),
        ]),
        before && after ? terms([["Documents in a visited leaf", load("expected_documents_per_leaf")], ["At an even load", load("ideal_documents_per_leaf")], ["Leaves without a document", `${before.empty_leaves} before, ${after.empty_leaves} after`]]) : null,
        ...(epochs.length === 0 ? [] : [
            el("p", { class: "faint" }, `The error in training (loss) was ${epochs[0].loss.toFixed(3)} in the first of ${plural(epochs.length, "pass", "passes")}, ${epochs.at(-1).loss.toFixed(3)} in the last.`),
            el("div", { class: "plots" }, losses(epochs), report.loads?.length > 1 ? loads(report.loads) : null),
        ]),
    ].filter(Boolean);
}
