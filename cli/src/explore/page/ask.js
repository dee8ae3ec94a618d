// Requests to the program. The key is kept only in this tab.

const KEY = "ehi-key";

export class Refused extends Error {
    /** `path`: what was asked for. */
    constructor(kind, message, path) {
        super(message);
        this.kind = kind;
        this.path = path;
    }
}

/** Has `heard` called with the path of each request that is answered as it should be. */
export function listen(heard) {
    answered = heard;
}

let answered = () => {};

async function send(path, options) {
    let response;
    try {
        response = await fetch(path, { ...options, credentials: "omit", redirect: "error" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Refused("away", "The program does not answer: it has ended, or is no longer on this machine.", path);
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(answer.error ?? "failed", answer.message ?? `The program answered ${response.status}.`, path);
    answered(path);
    return answer;
}

function headers() {
    return { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
}

export function get(path) {
    return send(path, { headers: headers() });
}

export function post(path, body = {}, signal = undefined) {
    const own = { ...headers(), "Content-Type": "application/json" };
    return send(path, { method: "POST", headers: own, body: JSON.stringify(body), signal });
}

/** The token in an address. */
export function token() {
    return location.hash.match(/^#([0-9a-f]{64})$/)?.[1];
}

/**
 * Exchanges the token in the address, which is taken out of it; says whether there was one. A program that does not
 * answer may still take it later.
 */
export async function begin() {
    const given = token();
    if (!given) return false;
    const used = () => history.replaceState(null, "", "/#search");
    try {
        const { key } = await post("/api/session", { token: given });
        sessionStorage.setItem(KEY, key);
    } catch (error) {
        if (error.kind !== "away") used();
        throw error;
    }
    used();
    return true;
}
