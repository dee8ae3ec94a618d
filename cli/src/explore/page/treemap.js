// Leaves as rectangles whose areas are their documents.

import { chance, count, el, plural, svg } from "./dom.js";

/** Height of the map by its width, and its bounds, in pixels. */
const SHAPE = 0.56;
const [LOWEST, HIGHEST] = [380, 620];
/** A line of a label, the room left next to it, and the least width of a leaf that has one. */
const [LINE, ROOM, LEAST] = [14, 4, 14];
/** Dots of hits: radius, and from one to the next. */
const [DOT, STEP] = [4, 11];
/** Words of a leaf at most, and the least width in which it has any. */
const WORDS = 4;
const NAMED = 42;

/**
 * Rectangles of `[leaf, documents]`, as large as their documents: the list is cut where its halves are most alike, so
 * that leaves of one node of the tree, whose numbers follow each other, stay together.
 */
function treemap(leaves, { x, y, width, height }) {
    if (leaves.length < 2) return leaves.map(([leaf, size]) => ({ leaf, size, box: { x, y, width, height } }));
    const total = leaves.reduce((sum, [, size]) => sum + size, 0);
    let [at, first] = [1, leaves[0][1]];
    while (at + 1 < leaves.length && 2 * first + leaves[at][1] <= total) first += leaves[at++][1];
    const share = first / total;
    const [before, after] = width >= height
        ? [{ x, y, width: width * share, height }, { x: x + width * share, y, width: width * (1 - share), height }]
        : [{ x, y, width, height: height * share }, { x, y: y + height * share, width, height: height * (1 - share) }];
    return [...treemap(leaves.slice(0, at), before), ...treemap(leaves.slice(at), after)];
}

/**
 * The map of an answer: leaves that the question reached in colour and numbered by probability, dots for hits, frames
 * around those that hold what was missed.
 */
export function map({ found, lost }, words, wide, open) {
    const width = Math.max(wide, 240);
    const height = Math.round(Math.min(Math.max(width * SHAPE, LOWEST), HIGHEST));
    const reached = found.leaves.length > 0 ? found.leaves : found.likely;
    const places = new Map(reached.map((own, at) => [own.leaf, { at, probability: own.probability }]));
    const most = Math.max(...reached.map(own => own.probability), 1e-9);
    const gone = new Set(lost.filter(own => !own.visited).map(own => own.leaf));
    const [cells, over] = [[], []];
    for (const { leaf, size, box } of treemap(found.sizes, { x: 0, y: 0, width, height })) {
        const place = places.get(leaf);
        const own = words.get(leaf) ?? [];
        const about = `Leaf ${leaf}, ${plural(size, "document")}${place === undefined ? "" : `, probability ${chance(place.probability)}`}${own.length === 0 ? "" : `: ${own.slice(0, 6).join(", ")}`}`;
        const rect = svg("rect", { ...box, class: place === undefined ? null : "lit", "data-leaf": leaf, onclick: () => open(leaf) }, svg("title", {}, about));
        // Scaled by the square root, so that a half and a quarter differ visibly and the smallest remain
        // visible.
        if (place !== undefined) rect.style.fillOpacity = String(0.12 + 0.88 * Math.sqrt(place.probability / most));
        cells.push(rect);
        const hits = found.hits.filter(hit => hit.leaf === leaf).length;
        over.push(...label(box, place, own, hits), ...dots(box, hits));
        // Drawn above all leaves, or adjacent ones would hide a part.
        if (gone.has(leaf)) over.push(svg("rect", { x: box.x + 2, y: box.y + 2, width: Math.max(box.width - 4, 1), height: Math.max(box.height - 4, 1), class: "missed" }));
    }
    const text = `A map of ${count(found.tree)} leaves, of which ${reached.length} are numbered. The tables say the same.`;
    return svg("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text }, cells, over);
}

/** What is written into a leaf: its number, and as many lines of its words as have room. */
function label(box, place, words, hits) {
    const lines = Math.floor((box.height - 1 - (hits > 0 ? STEP : 0)) / LINE);
    const number = place && el("b", { class: "place" }, `${place.at + 1} `);
    const isNamed = box.width >= (place || hits > 0 ? NAMED : 2 * NAMED);
    const named = isNamed ? words.slice(0, WORDS).map(word => [el("bdi", {}, word), " "]) : [];
    if (lines < 1 || box.width < LEAST || !number && named.length === 0) return [];
    return [svg("foreignObject", { x: box.x + ROOM, y: box.y + 1, width: box.width - ROOM, height: lines * LINE },
        el("div", { class: number ? "label" : "label other" }, number, named))];
}

/** One dot for each hit, from the lower left of its leaf. */
function dots(box, hits) {
    const row = Math.max(Math.floor((box.width - ROOM) / STEP), 1);
    return Array.from({ length: hits }, (_, at) => svg("circle", {
        cx: box.width < 2 * STEP ? box.x + box.width / 2 : box.x + ROOM + DOT + STEP * (at % row),
        cy: box.height < 2 * STEP ? box.y + box.height / 2 : Math.max(box.y + box.height - ROOM - DOT - STEP * Math.floor(at / row), box.y + DOT),
        r: DOT,
    }));
}
