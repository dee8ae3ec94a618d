// The views and their shared state: the index and the question.

import { begin, get, listen, Refused, token } from "./ask.js";
import { by, count, el, plural } from "./dom.js";
import { keys, search } from "./search.js";
import { why } from "./why.js";
import { leaves } from "./leaves.js";
import { state } from "./state.js";
import { teach } from "./teach.js";

const VIEWS = { search: ["Search", search], why: ["Why", why], leaves: ["Leaves", leaves], state: ["State", state], teach: ["Teach", teach] };
/** How often it is looked whether another process has changed the index. */
const LOOK = 3000;

const ABOUT = "/api/about";
const KEPT = "ehi-ask";
/** Bytes of a question at most, as the program has it. */
const MOST_QUESTION = 16 * 1024;
const FRESH = { question: "", mode: "best", reach: "auto", filters: [] };

/** What went wrong, by what was asked for: each until the same succeeds, or another view is shown. */
const failures = new Map();

const app = {
    about: null,
    /** What is asked, the same in all views. */
    ask: FRESH,
    keep() {
        try {
            sessionStorage.setItem(KEPT, JSON.stringify(app.ask));
        } catch {
            // No room: a reload starts from the previous state.
        }
    },
    /** What a request has of it. */
    asked(k) {
        const { question, mode, filters } = app.ask;
        if (new Blob([question]).size > MOST_QUESTION) {
            throw new Refused("bad_request", `The question is too long: it may have ${MOST_QUESTION / 1024} KiB.`);
        }
        const [kind, value] = (mode === "lexical" ? "auto" : app.ask.reach).split(":");
        const reach = { auto: {}, exact: { exact: true }, recall: { recall: Number(value) }, leaves: { beam: Number(value) } }[kind];
        return { question, k, mode, ...reach, filters: filters.map(one => one.filter) };
    },
    show(view) {
        location.hash = `#${view}`;
    },
    /** Shows an error, or with null none any more. */
    alert(error) {
        if (error === null) [...failures.keys()].filter(path => !lost || path !== ABOUT).forEach(path => failures.delete(path));
        else failures.set(error.path ?? "", error);
        tell();
    },
    /** Calls, and shows what goes wrong, unless the view was left; nothing is returned then. */
    async try(call) {
        const turn = turns;
        try {
            const answer = await call();
            if (failures.delete("")) tell();
            return answer;
        } catch (error) {
            if (error.name !== "AbortError" && turn === turns) app.alert(error);
            return undefined;
        }
    },
};

listen(path => failures.delete(path) && tell());

/** While the program or the index is gone that alone is said. */
function tell() {
    const gone = failures.get(ABOUT);
    const messages = new Set((gone ? [gone] : [...failures.values()]).map(error => error.message));
    by("alert").textContent = [...messages].join(" ");
}

let shown = null;
let lost = false;
/** Views shown so far. */
let turns = 0;

function view() {
    const name = location.hash.slice(1);
    return Object.hasOwn(VIEWS, name) ? name : "search";
}

function render() {
    const name = view();
    turns++;
    shown?.leave?.();
    app.alert(null);
    for (const link of by("nav").children) {
        if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    document.title = `${VIEWS[name][0]} · ${app.about.name} · ehi`;
    by("main").replaceChildren();
    shown = VIEWS[name][1](app, by("main")) ?? null;
}

function describe() {
    const { name, documents, leaves, judge } = app.about;
    by("name").textContent = name;
    by("size").textContent = `${plural(documents, "document")}, ${leaves === 1 ? "no tree" : `${count(leaves)} leaves`}, ${judge ? "may be taught" : "read-only"}`;
}

async function look() {
    try {
        const about = await get(ABOUT);
        const { generation, model } = app.about;
        app.about = about;
        describe();
        if (lost) {
            found();
            shown?.changed?.();
        } else if (about.generation !== generation || about.model !== model) shown?.changed?.();
    } catch (error) {
        lost = true;
        document.body.classList.add("lost");
        app.alert(error);
    }
    setTimeout(look, LOOK);
}

/** The program answers again: what failed meanwhile is asked for again. */
function found() {
    lost = false;
    document.body.classList.remove("lost");
    app.alert(null);
}

/** What was asked before a reload. With a new key, the index may be another one. */
function remember(fresh) {
    if (fresh) sessionStorage.removeItem(KEPT);
    try {
        app.ask = { ...FRESH, ...JSON.parse(sessionStorage.getItem(KEPT) ?? "{}") };
    } catch {
        app.ask = { ...FRESH };
    }
    app.ask.filters = app.ask.filters.filter(one => typeof one.filter === "string");
}

async function start(fresh = false) {
    try {
        fresh = await begin() || fresh;
        app.about = await get(ABOUT);
    } catch (error) {
        app.alert(error);
        // Without a valid key, waiting does not help.
        if (!["no_key", "no_token"].includes(error.kind)) setTimeout(start, LOOK, fresh);
        return;
    }
    app.alert(null);
    remember(fresh);
    describe();
    const links = Object.entries(VIEWS).map(([name, [title]]) => el("a", { href: `#${name}` }, title));
    by("nav").append(...links);
    addEventListener("hashchange", () => {
        if (location.hash !== "#main" && !token()) render();
    });
    addEventListener("keydown", event => {
        const writes = event.target.matches?.("input, select, textarea");
        if (event.key === "?" && !writes && !by("reader").open) keys(app);
    });
    render();
    setTimeout(look, LOOK);
}

// The program's address, followed in an open tab.
addEventListener("hashchange", () => token() && location.reload());
start();
