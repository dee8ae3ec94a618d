// The program, the browser, and checks that report their observations.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import readline from "node:readline";

const require = createRequire(`${process.env.EHI_BROWSER_MODULES}/`);
const { chromium } = require("playwright-core");
export const AXE = require.resolve("axe-core/axe.min.js");
export const PROGRAM = process.env.EHI_PROGRAM;
export const INDEX = process.env.EHI_INDEX_DIR;
export const PICTURES = process.env.EHI_PICTURES;
/** A folder whose files take the place of the page's own: for work on the page without a build. */
const PAGE = process.env.EHI_PAGE;
/** The browser reaches this machine's loopback address and nothing else. */
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync", "--disable-background-networking", "--disable-component-update"];

export const folder = mkdtempSync(path.join(tmpdir(), "check-explore-"));

/** Runs the program to its end. */
export function ehi(...args) {
    return execFileSync(PROGRAM, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** Starts `ehi explore`; `end` ends it as Ctrl-C does. */
export async function explore(index, ...options) {
    const child = spawn(PROGRAM, ["explore", "--index", index, "--no-open", ...options], { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stderr.on("data", data => (said += data));
    const ended = new Promise(resolve => child.on("exit", resolve));
    const lines = readline.createInterface({ input: child.stdout });
    const address = await Promise.race([new Promise(resolve => lines.once("line", resolve)), ended.then(() => Promise.reject(new Error(said)))]);
    return {
        address,
        /** The address for another page, which is printed when one was opened. */
        another: async () => {
            for (let tries = 0; tries < 400; tries++) {
                const found = said.match(/http:\S+/g);
                if (found) return found.at(-1);
                await new Promise(resolve => setTimeout(resolve, 50));
            }
            throw new Error(said);
        },
        kill: () => child.kill("SIGKILL"),
        end: async () => {
            child.kill("SIGINT");
            assert.equal(await ended, 0, said);
        },
    };
}

export async function launch() {
    return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** A page that fails with any error of its script, any breach of its policy, any request elsewhere. */
export async function open(browser, address, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    const own = new URL(address).origin;
    page.faults = [];
    page.on("pageerror", error => page.faults.push(`error: ${error}`));
    page.on("console", message => {
        // Refusals of the program are shown by the page; the browser notes them, too.
        if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) page.faults.push(message.text());
    });
    page.on("request", request => {
        if (!request.url().startsWith(own)) page.faults.push(`a request to ${request.url()}`);
    });
    page.on("dialog", dialog => {
        page.faults.push(`a dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    if (PAGE) await page.route(url => url.origin === own && !url.pathname.startsWith("/api/"), fromFolder);
    await page.goto(address);
    await page.getByRole("link", { name: "Search" }).waitFor();
    return page;
}

async function fromFolder(route) {
    const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
    const served = await route.fetch();
    await route.fulfill({ response: served, body: readFileSync(path.join(PAGE, name)) });
}

export async function close(page) {
    assert.deepEqual(page.faults, []);
    await page.context().close();
}

/** Goes to a view by its link. The page hears of the new address a moment after the click. */
export async function view(page, name) {
    const link = page.getByRole("navigation").getByRole("link", { name });
    await link.click();
    await link.and(page.locator("[aria-current=page]")).waitFor();
}

/** Types a question as a person does. */
export async function ask(page, question) {
    const input = page.getByLabel("Question");
    await input.fill("");
    await input.pressSequentially(question, { delay: 15 });
    await page.locator("[role=status]", { hasText: /hits?, ranked|No hits/ }).first().waitFor();
}

/** What axe-core finds by WCAG 2.2 AA. */
export async function accessible(page, where) {
    await page.evaluate(readFileSync(AXE, "utf8"));
    const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
    const faults = found.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(node => `${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 200)}`).join(" | ")}`);
    assert.deepEqual(faults, [], where);
}

/** Nothing reaches beyond the right edge but what scrolls by itself. */
export async function fits(page, where) {
    const wide = await page.evaluate(() => {
        const scrolls = own => own && own !== document.body && (/auto|scroll|hidden/.test(getComputedStyle(own).overflowX) || scrolls(own.parentElement));
        const width = document.documentElement.clientWidth;
        const beyond = [...document.body.querySelectorAll("*")].filter(own => own.getBoundingClientRect().right > width + 1 && !scrolls(own) && !own.matches(".skip"));
        return [document.documentElement.scrollWidth - width, ...beyond.slice(0, 3).map(own => own.outerHTML.slice(0, 200))];
    });
    assert.deepEqual(wide, [0], where);
}

export function clean() {
    rmSync(folder, { recursive: true, force: true });
}
