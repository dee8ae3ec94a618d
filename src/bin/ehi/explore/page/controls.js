// What a search is asked with besides the question.

import { el, foreign } from "./dom.js";

const MODES = [["best", "best for this index"], ["dense", "meaning"], ["lexical", "words"], ["hybrid", "meaning and words"]];
const RECALLS = [0.8, 0.9, 0.95, 0.99];
const BEAMS = [1, 2, 4, 8, 16, 32, 64];

function select(label, options, chosen, onchange) {
    const list = options.map(([value, text]) => {
        const option = el("option", { value }, text);
        option.selected = value === chosen;
        return option;
    });
    return el("label", {}, label, el("select", { onchange: event => onchange(event.target.value) }, list));
}

/** Selects for mode and reach. */
export function controls(app, changed) {
    const { about, ask } = app;
    const set = name => value => {
        ask[name] = value;
        app.keep();
        changed();
    };
    const modes = MODES.filter(([mode]) => about.words || mode === "best" || mode === "dense");
    const reaches = [["auto", "as far as it takes"]];
    if (about.leaves > 1) {
        reaches.push(...RECALLS.map(share => [`recall:${share}`, `to find ${share * 100}%`]));
        reaches.push(...BEAMS.filter(beam => beam < about.leaves).map(beam => [`leaves:${beam}`, beam === 1 ? "1 leaf" : `${beam} leaves`]));
    }
    reaches.push(["exact", "every document"]);
    const parts = [select("Ranked by", modes, ask.mode, set("mode"))];
    if (ask.mode === "lexical") ask.reach = "auto";
    else parts.push(select("Visiting", reaches, ask.reach, set("reach")));
    return parts;
}

/** The filters in force, each with a way to take it off. */
export function filters(app, changed) {
    const off = at => () => {
        app.ask.filters.splice(at, 1);
        app.keep();
        changed();
    };
    return app.ask.filters.map(({ name, value }, at) => {
        const text = `${name}: ${value} ×`;
        return el("li", {}, foreign("button", { type: "button", class: "chip", "aria-label": `Without the filter ${name}: ${value}`, onclick: off(at) }, text));
    });
}
