// The question with its options.

import { el, foreign } from "./dom.js";

const MODES = [["best", "best for this index"], ["dense", "meaning"], ["lexical", "words"], ["hybrid", "meaning and words"]];
const RECALLS = [0.8, 0.9, 0.95, 0.99];
const BEAMS = [1, 2, 4, 8, 16, 32, 64];

function select(app, label, options, name, changed) {
    // A choice that is not offered counts as none.
    if (!options.some(([value]) => value === app.ask[name])) app.ask[name] = options[0][0];
    const list = options.map(([value, text]) => {
        const option = el("option", { value }, text);
        option.selected = value === app.ask[name];
        return option;
    });
    const onchange = event => {
        app.ask[name] = event.target.value;
        app.keep();
        changed();
    };
    return el("label", {}, el("span", { class: "small faint" }, label), el("select", { onchange }, list));
}

/** Selects for mode and reach. They stay where they are when one of them is used. */
function controls(app, changed) {
    const { about, ask } = app;
    const isOffered = mode => mode === "best" || (mode === "lexical" || about.encoder) && (mode === "dense" || about.words);
    const modes = MODES.filter(([mode]) => isOffered(mode));
    const reaches = [["auto", "automatic"]];
    if (about.leaves > 1 && about.encoder) {
        // With few documents all are compared anyway.
        if (!about.few) reaches.push(...RECALLS.map(share => [`recall:${share}`, `enough leaves for ${share * 100}% of the best`]));
        reaches.push(...BEAMS.filter(beam => beam < about.leaves).map(beam => [`leaves:${beam}`, beam === 1 ? "the likeliest leaf" : `the ${beam} likeliest leaves`]));
    }
    if (about.encoder) reaches.push(["exact", "all documents"]);
    // Words are searched in all documents.
    const fit = () => (reach.hidden = ask.mode === "lexical");
    const reach = select(app, "Search in", reaches, "reach", changed);
    const mode = select(app, "Ranked by", modes, "mode", () => {
        fit();
        changed();
    });
    fit();
    return [mode, reach];
}

/** The filters in force, each with a way to take it off. */
function filters(app, changed) {
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

/** Puts other controls into a place, with the focus on the same one, or on the one of the same label. */
function keepingFocus(place, change) {
    const had = document.activeElement;
    const held = place.contains(had);
    const focused = held ? had.closest("label")?.firstChild?.textContent : undefined;
    change();
    if (held && had.isConnected) had.focus();
    if (focused === undefined) return;
    for (const own of place.querySelectorAll("label")) if (own.firstChild.textContent === focused) own.querySelector("select, input")?.focus();
}

/**
 * The form of a question: `form` with `input` and the filters in force (`chips`). `offer` draws the options anew if
 * others can be offered, `refilter` the filters. `changed` is called when an option or a filter has changed.
 */
export function questionForm(app, { submit, changed, help, button }) {
    const input = el("input", { type: "search", id: "question", dir: "auto", value: app.ask.question, autocomplete: "off", spellcheck: "false", enterkeyhint: "search" });
    const options = el("div", { class: "row" });
    const chips = el("ul", { class: "chips", "aria-label": "Filters" });
    const onsubmit = event => {
        event.preventDefault();
        submit();
    };
    const form = el("form", { class: "ask", role: "search", onsubmit },
        el("div", { class: "question" }, el("label", { for: "question", class: "small faint" }, "Question"), input), options, button);
    let offers = null;
    function offer() {
        const { leaves, few, words, encoder } = app.about;
        const now = JSON.stringify([leaves, few, words, encoder]);
        if (now !== offers) keepingFocus(options, () => options.replaceChildren(...controls(app, changed), help ?? ""));
        offers = now;
    }
    function refilter() {
        chips.replaceChildren(...filters(app, () => {
            refilter();
            (chips.querySelector("button") ?? input).focus();
            changed();
        }));
    }
    offer();
    refilter();
    return { form, chips, input, offer, refilter };
}
