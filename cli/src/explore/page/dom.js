// Elements from plain values, and numbers and times for display. Text is only ever inserted as text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
    for (const [name, value] of Object.entries(properties ?? {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
        else element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
    return element;
}

/** An element with attributes, `on…` listeners and children; a child that is a string is text. */
export function el(name, properties, ...children) {
    return fill(document.createElement(name), properties, children);
}

export function svg(name, properties, ...children) {
    return fill(document.createElementNS(SVG, name), properties, children);
}

/** Text of a document or a question: in its own direction, which acts on nothing around it. */
export function foreign(name, properties, text) {
    return el(name, { dir: "auto", ...properties }, text);
}

/** What is shown of a title; the id stands for one that shows nothing. */
export function named(title, id) {
    const shows = text => /[^\s\p{C}\p{Default_Ignorable_Code_Point}]/u.test(text);
    return [title, id].find(shows)?.trim() ?? JSON.stringify(id);
}

/** Stretches of text, those with words of the question marked. */
export function marked(stretches) {
    return stretches.map(({ text, marked }) => (marked ? el("mark", {}, text) : text));
}

/** Where a passage is: its headings, outermost first, and its line of the file. */
export function whereabouts({ headings, line }) {
    const parts = [headings.length > 0 && foreign("span", {}, headings.join(" \u203a ")), line !== null && el("span", {}, `line ${count(line)}`)].filter(Boolean);
    return parts.length === 0 ? null : el("p", { class: "row small faint" }, parts);
}

/** Sentences that tell of a command which writes: before it, the program must end where it has the index for writing. */
export function tip({ judge }, text) {
    return judge ? `${text} End this program first: while it runs with “--judge”, no other can write to the index.` : text;
}

/** A command on this index, as it is typed. */
export function command({ path }, name, rest) {
    const quoted = /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
    return ["ehi", name, "--index", quoted, rest].filter(Boolean).join(" ");
}

export function by(id) {
    return document.getElementById(id);
}

export function table(heads, rows, caption) {
    const head = heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
    const cells = row => row.map((cell, at) => (cell instanceof HTMLTableCellElement ? cell : el("td", { class: heads[at][1] }, cell)));
    return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
        el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map(row => el("tr", {}, cells(row))))));
}

export function terms(pairs) {
    return el("dl", {}, pairs.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

const whole = new Intl.NumberFormat("en");

export const count = number => whole.format(number);
export const score = number => (number === null || number === undefined ? "–" : number.toFixed(4));
export const ms = number => `${number < 10 ? number.toFixed(2) : number.toFixed(0)} ms`;
export const percent = share => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}%`;
export const plural = (number, name, many = `${name}s`) => `${count(number)} ${number === 1 ? name : many}`;

export function bytes(number) {
    const names = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (number >= 1024 && at + 1 < names.length) [number, at] = [number / 1024, at + 1];
    return `${at === 0 ? number : number.toFixed(1)} ${names[at]}`;
}

export function when(seconds) {
    const at = new Date(seconds * 1000);
    return Number.isNaN(at.getTime()) ? String(seconds) : at.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
}

/** A probability; one that is not nothing never reads as nothing. */
export function chance(p) {
    if (p > 0 && p < 0.001) return "<0.1%";
    return p < 1 && p >= 0.995 ? ">99%" : percent(p);
}
