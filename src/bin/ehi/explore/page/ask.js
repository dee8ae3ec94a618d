// Requests to the program. The key is kept for this tab alone.

const KEY = "ehi-key";

export class Refused extends Error {
    constructor(kind, message) {
        super(message);
        this.kind = kind;
    }
}

async function send(path, options) {
    let response;
    try {
        response = await fetch(path, { ...options, credentials: "omit", redirect: "error" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Refused("away", "The program does not answer: it has ended, or is no longer on this machine.");
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Refused(answer.error ?? "failed", answer.message ?? `The program answered ${response.status}.`);
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

/** Exchanges the token in the address, which is taken out of it. */
export async function begin() {
    const token = location.hash.match(/^#([0-9a-f]{64})$/)?.[1];
    if (!token) return;
    history.replaceState(null, "", "/#search");
    const { key } = await post("/api/session", { token });
    sessionStorage.setItem(KEY, key);
}
