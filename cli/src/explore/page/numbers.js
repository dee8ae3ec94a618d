// Numbers and times for display.

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
