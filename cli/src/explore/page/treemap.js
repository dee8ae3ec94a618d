// Leaves as rectangles whose areas are their documents.

import { chance, count, plural, svg } from "./dom.js";

/** Height of the map by its width, and its bounds, in pixels. */
const SHAPE = 0.56;
const [LOWEST, HIGHEST] = [380, 620];
/** A letter of a label, about; one of a script with wide letters; a line; the room left next to it. */
const [LETTER, WIDE, LINE, ROOM] = [7, 12, 14, 4];
/** Dots of hits: radius, and from one to the next. */
const [DOT, STEP] = [4, 11];
/** Words of a leaf at most, and the least room in which it has any. */
const WORDS = 4;
const NAMED = 34;

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
export function map({ found, sizes, lost }, words, wide, open) {
    const width = Math.max(wide, 240);
    const height = Math.round(Math.min(Math.max(width * SHAPE, LOWEST), HIGHEST));
    const reached = found.leaves.length > 0 ? found.leaves : found.likely;
    const places = new Map(reached.map((own, at) => [own.leaf, { at, probability: own.probability }]));
    const most = Math.max(...reached.map(own => own.probability), 1e-9);
    const gone = new Set(lost.filter(own => !own.visited).map(own => own.leaf));
    const [cells, over] = [[], []];
    for (const { leaf, size, box } of treemap(sizes.documents, { x: 0, y: 0, width, height })) {
        const place = places.get(leaf);
        const own = words.get(leaf) ?? [];
        const about = `Leaf ${leaf}, ${plural(size, "document")}${place === undefined ? "" : `, probability ${chance(place.probability)}`}${own.length === 0 ? "" : `: ${own.slice(0, 6).join(", ")}`}`;
        const rect = svg("rect", { ...box, class: place === undefined ? null : "lit", "data-leaf": leaf, onclick: () => open(leaf) }, svg("title", {}, about));
        // Scaled by the square root, so that a half and a quarter differ visibly and the smallest remain
        // visible.
        if (place !== undefined) rect.style.fillOpacity = String(0.12 + 0.88 * Math.sqrt(place.probability / most));
        cells.push(rect);
        const hits = found.hits.filter(hit => hit.from === leaf).length;
        over.push(...label(box, place, own, hits), ...dots(box, hits));
        // Drawn above all leaves, or adjacent ones would hide a part.
        if (gone.has(leaf)) over.push(svg("rect", { x: box.x + 2, y: box.y + 2, width: Math.max(box.width - 4, 1), height: Math.max(box.height - 4, 1), class: "missed" }));
    }
    const text = `A map of ${count(sizes.leaves)} leaves, of which ${reached.length} are numbered. The tables say the same.`;
    return svg("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text }, cells, over);
}

/** What is written into a leaf: its number, and as many of its words as have room. */
function label(box, place, words, hits) {
    const free = box.height - 2 - (hits > 0 ? STEP : 0);
    // A single line may be a little closer.
    const lines = Math.max(Math.floor(free / LINE), free >= LINE - 3 ? 1 : 0);
    const room = box.width - 2 * ROOM;
    const number = place === undefined ? "" : String(place.at + 1);
    if (lines < 1 || long(number) > room) return [];
    const texts = number === "" ? [] : [[number]];
    const named = room < NAMED || place === undefined && hits === 0 && room < 2 * NAMED ? [] : fitting(words.slice(0, WORDS), room);
    let used = number === "" ? 0 : long(number) + 2 * LETTER;
    for (const word of named) {
        if (texts.length > 0 && used + long(word) <= room) texts.at(-1).push(word);
        else if (texts.length < lines && long(word) <= room) {
            used = 0;
            texts.push([word]);
        } else continue;
        used += long(word) + LETTER;
    }
    return texts.map((line, at) => svg("text", { x: box.x + ROOM, y: box.y + LINE * (at + 1) - 2, class: place === undefined ? "other" : null },
        line.map((word, of) => svg("tspan", { class: at === 0 && of === 0 && number !== "" ? "place" : null, dx: of === 0 ? null : LETTER }, word))));
}

/** Words that fit into a width; where none does, the beginning of the first. */
function fitting(words, room) {
    const fit = words.filter(word => long(word) <= room);
    if (fit.length > 0 || words.length === 0) return fit;
    const letters = [...words[0]];
    while (letters.length > 0 && long(`${letters.join("")}…`) > room) letters.pop();
    return letters.length < 4 ? [] : [`${letters.join("")}…`];
}

function long(text) {
    return [...text].reduce((sum, letter) => sum + (letter > "\u2e7f" ? WIDE : LETTER), 0);
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
