// Search, the reader, Why and Leaves on the index of SciFact, as a person uses them.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { accessible, ask, close, ehi, explore, fits, folder, INDEX, open, PICTURES, view } from "./harness.mjs";

const QUESTION = "Does vitamin D protect against infection?";

export async function search(browser) {
    const program = await explore(INDEX);
    const page = await open(browser, program.address);
    assert.equal(await page.title(), "Search · scifact · ehi");
    assert.ok(!page.url().includes(program.address.split("#")[1]), "the token stays in the address");
    await begins(page);
    await ask(page, QUESTION);
    const expected = JSON.parse(ehi("search", "--index", INDEX, "--json", "--k", "10", "--encoder", "full", QUESTION));
    await page.getByText(/The full encoder (moved|agrees)|so the full encoder read/).waitFor();
    const ids = await page.locator(".hit").evaluateAll(hits => hits.map(hit => hit.dataset.id));
    assert.deepEqual(ids.slice(0, 10), expected.hits.map(hit => hit.id), "the hits are those of the program");
    assert.ok(await page.locator(".hit mark", { hasText: /vitamin/i }).count() > 0, "words are marked");
    const cost = await page.getByText(/documents visited/).textContent();
    assert.match(cost, /^encode \(full\) [\d.]+ ms · .*scan [\d.]+ ms · .*fetch [\d.]+ ms · [\d,]+ of [\d,]+ documents visited \(\d/);

    // More on scrolling, with the keys alone.
    await page.getByLabel("Question").press("ArrowDown");
    for (let step = 0; step < 14; step++) {
        await page.keyboard.press("ArrowDown");
        await page.waitForTimeout(60);
    }
    await page.waitForFunction(() => document.querySelectorAll(".hit").length >= 20);
    const at = await page.evaluate(() => [...document.querySelectorAll(".hit")].findIndex(hit => hit.contains(document.activeElement)));
    assert.ok(at >= 9, `the keys reach hit ${at}`);

    // The document in full, opened and closed by keys, and where one was before.
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    assert.ok((await dialog.locator(".text").textContent()).length > 200);
    await accessible(page, "the reader");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => [...document.querySelectorAll(".hit")].findIndex(hit => hit.contains(document.activeElement))), at);
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.id), "question");

    // Modes and reaches, with the same results as the program.
    await page.getByLabel("Ranked by").selectOption("lexical");
    await page.getByText(/ranked by words\./).waitFor();
    assert.equal(await page.getByLabel("Search in").isVisible(), false, "words are looked for in all documents");
    await page.getByLabel("Ranked by").selectOption("hybrid");
    await page.getByText(/ranked by meaning \([\d.]+\) and words/).waitFor();
    assert.match(await page.locator(".hit").first().textContent(), /meaning [\d.]+ \(rank \d+\).*words [\d.]+|words [\d.]+/);
    await page.getByLabel("Ranked by").selectOption("dense");
    await page.getByLabel("Search in").selectOption("leaves:8");
    await page.getByText(/ 8 of 518 leaves · /).waitFor();
    await accessible(page, "search");

    await keepsStill(page);
    await ask(page, QUESTION);
    await drawnAnew(page);

    // The question is kept after a reload, which needs no new token.
    await page.reload();
    await page.locator(".hit").first().waitFor();
    assert.equal(await page.getByLabel("Question").inputValue(), QUESTION);
    await page.getByLabel("Search in").selectOption("auto");

    // The end of the hits is announced.
    const end = page.getByText("These are the first 200 hits");
    for (let step = 0; step < 600 && !await end.isVisible(); step++) {
        await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
        await page.waitForTimeout(100);
    }
    assert.deepEqual([await end.isVisible(), await page.locator(".hit").count()], [true, 200]);

    await page.getByLabel("Question").fill("");
    await page.waitForFunction(() => document.querySelectorAll(".hit").length === 0);
    await why(page);
    await leaves(page);
    await state(page);
    await alerts(page);
    await close(page);

    // A second page has its own address, and the first one is used up.
    const address = await program.another();
    const second = await open(browser, address);
    await ask(second, QUESTION);
    // An open tab needs no new one either: following an address in it starts a new session.
    let next = address;
    while (next === address) next = await program.another();
    await second.goto(next);
    await second.getByText("Type a question").waitFor();
    assert.equal(new URL(second.url()).hash, "#search");
    for (const name of ["constructor", "toString", "__proto__"]) {
        await second.evaluate(name => (location.hash = `#${name}`), name);
        await second.waitForFunction(() => document.title.startsWith("Search"));
    }
    await close(second);
    // A link on another page leads here, too, and so does a reload after it.
    const third = await (await browser.newContext()).newPage();
    await third.setContent(`<a href="${program.address}">the address</a>`);
    await third.getByRole("link").click();
    await third.getByRole("alert").getByText("was used before").waitFor();
    await third.reload();
    await third.getByRole("alert").getByText("the key of a session").waitFor();
    await third.context().close();
    await program.end();
    await tips(browser);
    await opens(browser);
}

/** A long document opens at what was found in it, in view, with the way there. */
async function opens(browser) {
    const filler = (name, count) => Array.from({ length: count }, (_, at) => `## ${name} ${at}\n\n${"Other words are about tea and its kinds. ".repeat(40)}\n\n`).join("");
    const zebra = "### Change the model\n\nThe zebra returns to the model before.\n\n| Zebra | Eats |\n|---|---|\n| young | milk |\n\n";
    const guide = `# Guide\n\n${filler("Part", 16)}## Operate\n\n${zebra}${filler("Later", 8)}`;
    const long = `${"Tea has many kinds. ".repeat(20_000)}Here a zebra eats grass. ${"Tea is steeped. ".repeat(20_000)}`;
    const line = guide.slice(0, guide.indexOf("The zebra")).split("\n").length;
    const notes = path.join(folder, "notes");
    mkdirSync(notes);
    writeFileSync(path.join(notes, "guide.md"), guide);
    writeFileSync(path.join(folder, "long.jsonl"), `${JSON.stringify({ _id: "long", title: "Long", text: long })}\n`);
    for (const [name, from, options] of [["passages", notes, []], ["whole", path.join(folder, "long.jsonl"), ["--whole"]]]) {
        const index = path.join(folder, name);
        ehi("create", "--index", index, "--model", process.env.EHI_MODEL, ...options);
        ehi("insert", "--index", index, from);
        const program = await explore(index);
        const page = await open(browser, program.address);
        await ask(page, "what does a zebra eat?");
        const dialog = page.getByRole("dialog");
        const lit = dialog.locator(".passage");
        const go = async () => {
            await page.locator(".hit h2 button").first().click();
            await lit.waitFor();
        };
        for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"]]) {
            await page.setViewportSize({ width, height: 844 });
            await page.emulateMedia({ colorScheme });
            const where = `${name}, ${width} pixels, ${colorScheme}`;
            await fits(page, where);
            await go();
            const seen = await lit.evaluate(own => {
                const [text, bar, box] = [own.querySelector("mark"), document.querySelector(".bar"), own.closest("dialog")].map(one => one.getBoundingClientRect());
                const [lit, around] = [own, document.body].map(one => getComputedStyle(one).backgroundColor);
                return { isSeen: text.top >= bar.bottom && text.bottom <= box.bottom && text.right <= box.right, isLit: lit !== around, isWide: own.closest("dialog").scrollWidth > box.width };
            });
            assert.deepEqual(seen, { isSeen: true, isLit: true, isWide: false }, where);
            await accessible(page, where);
            await page.screenshot({ path: path.join(PICTURES, `passage-${name}-${colorScheme}-${width}.png`) });
            await page.keyboard.press("Escape");
        }
        const excerpt = await page.locator(".excerpt").first().textContent();
        await go();
        assert.ok((await lit.textContent()).includes("zebra"), name);
        if (name === "passages") {
            const place = `Operate › Change the modelline ${line}`;
            assert.deepEqual([await dialog.locator(".bar p").textContent(), await page.locator(".hit p").first().textContent()], [place, place]);
            assert.match(excerpt, /^The zebra returns to the model before\. · Zebra · Eats · young · milk/);
        } else {
            // What is above and below comes on a click, and what is read stays where it is.
            const top = () => lit.evaluate(own => own.getBoundingClientRect().top);
            const text = dialog.locator(".text");
            for (const side of ["above", "below"]) {
                const [more, before] = [dialog.getByRole("button", { name: `More ${side}` }), await top()];
                while (await more.isVisible()) {
                    const length = (await text.textContent()).length;
                    await more.evaluate(own => own.click());
                    await page.waitForFunction(length => document.querySelector("dialog .text").textContent.length > length, length);
                }
                // A line more or less, as lines are broken anew.
                assert.ok(Math.abs(await top() - before) < 30, `${side}: from ${before} to ${await top()}`);
            }
            assert.ok(await text.textContent() === long, "the whole text");
        }
        await close(page);
        await program.end();
    }
}

/** Another process changes the index and its tree while a document is open: the keys go on where one was. */
async function drawnAnew(page) {
    const hit = page.locator(".hit").nth(2);
    const id = await hit.getAttribute("data-id");
    const old = await hit.elementHandle();
    await hit.locator("h2 button").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.route("**/api/about", async route => {
        const response = await route.fetch();
        const about = await response.json();
        await route.fulfill({ response, json: { ...about, generation: about.generation + 1, leaves: 33 } });
    });
    await page.waitForFunction(hit => !hit.isConnected, old);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await page.waitForFunction(id => document.activeElement.closest(".hit")?.dataset.id === id, id);
    const leaves = () => page.getByLabel("Search in").locator("option").evaluateAll(all => all.map(own => own.value).filter(value => value.startsWith("leaves:")));
    assert.deepEqual(await leaves(), [1, 2, 4, 8, 16, 32].map(count => `leaves:${count}`));
    await page.getByLabel("Search in").focus();
    await page.unroute("**/api/about");
    await page.waitForFunction(() => document.querySelector("option[value='leaves:64']") !== null);
    assert.ok(await page.getByLabel("Search in").evaluate(own => own === document.activeElement), "the select keeps the focus");
}

/** Commands are named as they can be typed, and what is in their way. */
async function tips(browser) {
    const index = path.join(folder, "it's empty");
    ehi("create", "--index", index, "--model", process.env.EHI_MODEL);
    for (const options of [[], ["--judge"]]) {
        const program = await explore(index, ...options);
        const page = await open(browser, program.address);
        assert.equal(await page.locator("pre").textContent(), `ehi insert --index '${index.replace("'", "'\\''")}' documents.jsonl`);
        for (const name of ["Search", "Why", "Leaves", "State"]) {
            await view(page, name);
            await page.locator("main").getByText("ehi insert").first().waitFor();
            assert.equal(await page.locator("main").getByText("End this program first").count(), options.length, name);
        }
        await close(page);
        await program.end();
    }
}

/** What fails is said until it succeeds, whatever else succeeds, or until its view is left. */
async function alerts(page) {
    const failed = { status: 500, json: { error: "failed", message: "no state today" } };
    await view(page, "Search");
    await page.route("**/api/state", route => route.fulfill(failed));
    const healthy = page.waitForResponse("**/api/health");
    await view(page, "State");
    await healthy;
    await page.waitForTimeout(200);
    await page.getByRole("alert").getByText("no state today").waitFor();
    await page.unroute("**/api/state");
    await view(page, "Search");
    assert.equal(await page.getByRole("alert").textContent(), "");

    await page.route("**/api/state", async route => {
        await page.waitForTimeout(500);
        await route.fulfill(failed);
    });
    const late = page.waitForResponse("**/api/state");
    await view(page, "State");
    await view(page, "Search");
    await late;
    await page.waitForTimeout(200);
    assert.equal(await page.getByRole("alert").textContent(), "");
    await page.unroute("**/api/state");
}

/** The page before anything is asked. */
async function begins(page) {
    await page.getByText("Type a question").waitFor();
    await accessible(page, "the page before a question");
    assert.equal(await page.getByLabel("Question").getAttribute("dir"), "auto");
    await page.locator(".start li button").first().click();
    await page.locator(".hit").first().waitFor();
    await page.locator(".hit h2 button").first().focus();
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("opens a hit").waitFor();
    await accessible(page, "the keys");
    await page.keyboard.press("Escape");
}

/** What one uses keeps the focus, and what one reads stays where it is. */
async function keepsStill(page) {
    const mode = page.getByLabel("Ranked by");
    await mode.selectOption("best");
    await mode.focus();
    for (const value of ["dense", "lexical"]) {
        await page.keyboard.press("ArrowDown");
        assert.equal(await mode.inputValue(), value);
        await page.getByText(value === "dense" ? /ranked by meaning\./ : /ranked by words\./).waitFor();
        assert.ok(await mode.evaluate(own => own === document.activeElement), "the select keeps the focus");
    }
    await mode.selectOption("best");
    await page.getByLabel("Search in").selectOption("auto");
    await page.getByText(/hits, ranked by meaning/).waitFor();
    // The list's place at each frame while one types and rests.
    await page.evaluate(() => {
        window.tops = new Set();
        const look = () => {
            window.tops.add(Math.round(document.querySelector("ol.hits").getBoundingClientRect().top));
            window.looking = requestAnimationFrame(look);
        };
        look();
    });
    await page.getByLabel("Question").press("End");
    await page.getByLabel("Question").pressSequentially(" and flu", { delay: 40 });
    await page.waitForTimeout(600);
    // Nor does an error move it; hits of an earlier question are dimmed.
    await page.route("**/api/search", route => route.abort());
    await page.getByLabel("Question").pressSequentially("s");
    await page.getByRole("alert").getByText("does not answer").waitFor();
    await page.locator("ol.hits.stale").waitFor();
    const tops = await page.evaluate(() => [cancelAnimationFrame(window.looking), [...window.tops]][1]);
    assert.equal(tops.length, 1, `the list stands at ${tops}`);
    await page.unroute("**/api/search");
    await page.getByLabel("Question").pressSequentially("?");
    await page.waitForFunction(() => document.querySelector("ol.hits.stale") === null && document.getElementById("alert").textContent === "");
}

async function why(page) {
    await view(page, "Why");
    await page.getByText("Ask a question to see where it leads.").waitFor();
    await page.getByLabel("Question").fill(QUESTION);
    await page.getByLabel("Question").press("Enter");
    // Whatever the search did, the leaves to which the question leads are shown, and named.
    await page.locator("svg.map rect.lit").first().waitFor();
    await page.locator("svg.map .place").first().waitFor();
    await page.waitForFunction(() => [...document.querySelectorAll("svg.map title")].some(own => /^Leaf \d+, \d+ documents?, probability [^:]*: \w/.test(own.textContent)));
    await page.getByLabel("Search in").selectOption("exact");
    await page.getByText(/^All documents were compared, without the tree\. The map shows where the tree would lead: to 10 leaves/).waitFor();
    await page.getByRole("region", { name: "The most probable leaves" }).locator("tbody tr").first().waitFor();
    assert.ok(await page.locator("svg.map rect.lit").count() > 0, "exact search has its likely leaves");
    // A choice by keyboard keeps the focus.
    await page.getByLabel("Search in").focus();
    await page.getByLabel("Search in").selectOption("leaves:4");
    await page.getByText(/^4 leaves of \d+ visited/).waitFor();
    assert.ok(await page.getByLabel("Search in").evaluate(own => own === document.activeElement), "the select keeps the focus");
    const expected = JSON.parse(ehi("explain", "--index", INDEX, "--json", "--k", "10", "--beam", "4", "--exact", QUESTION));
    // One without documents has no area.
    const visited = expected.leaves.filter(own => own.documents > 0);
    const lit = await page.locator("svg.map rect.lit").evaluateAll(all => all.map(own => Number(own.dataset.leaf)).sort((a, b) => a - b));
    assert.deepEqual(lit, visited.map(own => own.leaf).sort((a, b) => a - b));
    const strength = new Map(await page.locator("svg.map rect.lit").evaluateAll(all => all.map(own => [Number(own.dataset.leaf), Number(getComputedStyle(own).fillOpacity)])));
    const falling = visited.map(own => strength.get(own.leaf));
    assert.ok(falling.every((own, at) => at === 0 || own <= falling[at - 1]), `coloured in the order of probability: ${falling}`);
    assert.equal(await page.locator("svg.map circle").count(), expected.hits.length, "a dot for each hit");
    // Areas are as documents.
    const sizes = new Map(JSON.parse(ehi("stats", "--index", INDEX, "--json")).leaf_sizes.map(own => [own.leaf, own.documents]));
    const areas = await page.locator("svg.map rect[data-leaf]").evaluateAll(all => all.map(own => [Number(own.dataset.leaf), own.width.baseVal.value * own.height.baseVal.value]));
    assert.equal(areas.length, sizes.size);
    const whole = await page.locator("svg.map").evaluate(own => own.viewBox.baseVal.width * own.viewBox.baseVal.height);
    const total = [...sizes.values()].reduce((sum, own) => sum + own, 0);
    for (const [leaf, area] of areas) assert.ok(Math.abs(area / whole - sizes.get(leaf) / total) < 1e-3, `leaf ${leaf}`);
    const hits = new Set(expected.hits.map(own => own.id));
    const missed = expected.exact.filter(own => !hits.has(own.id));
    const rows = page.getByRole("region", { name: "What exact search finds elsewhere" }).locator("tbody tr");
    assert.equal(await rows.count(), missed.length);
    await accessible(page, "why");
    await late(page);
    // From a leaf to what it holds.
    const first = String(expected.leaves[0].leaf);
    await page.getByRole("region", { name: "Visited leaves" }).getByRole("button", { name: first, exact: true }).click();
    await page.getByRole("heading", { name: `Leaf ${first}`, exact: true }).waitFor();
}

/** An answer that comes after that of a later question is not shown. */
async function late(page) {
    const before = await page.locator("#said").textContent();
    let first = true;
    await page.route("**/api/why", async route => {
        const slow = first;
        first = false;
        if (slow) await new Promise(resolve => setTimeout(resolve, 1500));
        await route.continue().catch(() => {});
    });
    await page.getByLabel("Search in").selectOption("leaves:1");
    await page.getByLabel("Search in").selectOption("leaves:4");
    await page.getByText(/^4 leaves of \d+ visited/).waitFor();
    await page.waitForTimeout(2000);
    assert.equal((await page.locator("#said").textContent()).split(".")[0], before.split(".")[0]);
    await page.unroute("**/api/why");
}

async function leaves(page) {
    await page.getByText(/leaves have documents/).waitFor();
    assert.equal(await page.locator(".card").count(), 1, "the leaf that one came for");
    await page.getByLabel("Number or word").fill("");
    assert.equal(await page.locator(".card").count(), 30);
    await page.getByRole("button", { name: "More leaves" }).click();
    assert.equal(await page.locator(".card").count(), 60);
    const word = (await page.locator(".card p").nth(1).textContent()).split(", ")[0];
    await page.getByLabel("Number or word").fill(word);
    assert.ok((await page.locator(".card").allTextContents()).every(text => text.includes(word)), word);
    await page.locator(".card button").first().click();
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await accessible(page, "leaves");
    // Without an answer one can try again.
    await page.route("**/api/leaves", route => route.abort());
    await page.getByRole("button", { name: "Read again" }).click();
    await page.getByRole("alert").getByText("does not answer").waitFor();
    assert.ok(await page.getByRole("button", { name: "Read again" }).isEnabled());
    await page.unroute("**/api/leaves");
    await page.getByRole("button", { name: "Read again" }).click();
    await page.waitForFunction(() => document.getElementById("alert").textContent === "");
    await page.getByText(/leaves have documents/).waitFor();
}

async function state(page) {
    // A failure is reported even if another part was read.
    await page.route("**/api/health", route => route.abort());
    await view(page, "State");
    await page.getByText("The health could not be read.").waitFor();
    await page.getByRole("alert").getByText("does not answer").waitFor();
    await page.unroute("**/api/health");
    await view(page, "Why");
    await view(page, "State");
    await page.getByText("The tree fits what is stored. “ehi verify” looks for damage.").or(page.getByText(/^`?ehi|uneven|unsure|no tree|other leaves|score all/).first()).waitFor();
    await page.getByRole("heading", { name: "Training report" }).waitFor();
    await page.getByText(/^Deploy: at 10% of the documents/).waitFor();
    const stats = JSON.parse(ehi("stats", "--index", INDEX, "--json"));
    await page.getByText(String(stats.model)).waitFor();
    await accessible(page, "state");
    await fits(page, "state");
    await view(page, "Teach");
    await page.getByText("open for reading").waitFor();
    await accessible(page, "teach, read-only");
}
