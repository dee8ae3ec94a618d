// The views, and what they share: what the index is, and the question that is asked.

import { begin, get } from "./ask.js";
import { by, el } from "./dom.js";
import { count, plural } from "./numbers.js";
import { search } from "./search.js";
import { why } from "./why.js";
import { leaves } from "./leaves.js";
import { state } from "./state.js";
import { teach } from "./teach.js";

const VIEWS = { search: ["Search", search], why: ["Why", why], leaves: ["Leaves", leaves], state: ["State", state], teach: ["Teach", teach] };
/** How often it is looked whether another process has changed the index. */
const LOOK = 3000;

const kept = JSON.parse(sessionStorage.getItem("ehi-ask") ?? "{}");
const app = {
    about: null,
    /** What is asked, the same in all views. */
    ask: { question: "", mode: "best", reach: "auto", filters: [], ...kept },
    keep() {
        sessionStorage.setItem("ehi-ask", JSON.stringify(app.ask));
    },
    /** What a request has of it. */
    asked(k) {
        const { question, mode, reach, filters } = app.ask;
        const [kind, value] = reach.split(":");
        const filter = filters.length === 0 ? undefined : { $and: filters.map(one => one.filter) };
        return { question, k, mode, reach: value === undefined ? kind : { [kind]: Number(value) }, filter };
    },
    show(view) {
        location.hash = `#${view}`;
    },
    alert(error) {
        by("alert").textContent = error?.message ?? "";
    },
    /** Calls, and shows what goes wrong; nothing is returned then. */
    async try(call) {
        try {
            const answer = await call();
            if (!lost) app.alert(null);
            return answer;
        } catch (error) {
            if (error.name === "AbortError") return undefined;
            app.alert(error);
            return undefined;
        }
    },
};

let shown = null;
let lost = false;

function view() {
    const name = location.hash.slice(1);
    return name in VIEWS ? name : "search";
}

function render() {
    const name = view();
    shown?.leave?.();
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
        const about = await get("/api/about");
        const { generation, model } = app.about;
        app.about = about;
        describe();
        if (lost) {
            lost = false;
            app.alert(null);
        }
        if (about.generation !== generation || about.model !== model) shown?.changed?.();
    } catch (error) {
        lost = true;
        app.alert(error);
    }
    setTimeout(look, LOOK);
}

async function start() {
    try {
        await begin();
        app.about = await get("/api/about");
    } catch (error) {
        app.alert(error);
        return;
    }
    describe();
    const links = Object.entries(VIEWS).map(([name, [title]]) => el("a", { href: `#${name}` }, title));
    by("nav").append(...links);
    addEventListener("hashchange", () => {
        if (location.hash !== "#main") render();
    });
    render();
    setTimeout(look, LOOK);
}

start();
