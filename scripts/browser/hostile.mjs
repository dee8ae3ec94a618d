// Malicious documents, very large and very small ones, other scripts, no hits, and an index that another
// process writes or removes.

import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { accessible, ask, close, ehi, explore, fits, folder, open, PICTURES, view } from "./harness.mjs";

const MODEL = process.env.EHI_MODEL;
const MARKUP = `<script>document.title = "taken"</script><img src=x onerror="document.title='taken'"><a href="javascript:alert(1)">zebra</a> "><svg onload=alert(1)> {{constructor.constructor('alert(1)')()}} \${alert(1)} <style>*{display:none}</style>`;
const LONG = "n".repeat(60_000);
/** Near each other, and the same number to JavaScript. */
const ACCOUNTS = ["9007199254740993", "9007199254740992"];
const DOCUMENTS = [
    { _id: `markup"><img src=x onerror=alert(1)>`, title: MARKUP, text: `zebra ${MARKUP}`, metadata: { [`<b onclick=alert(1)>`]: MARKUP, lang: "en" } },
    { _id: "bidi", title: "zebra \u202e\u2066 gpj.exe", text: "A zebra \u202eis turned\u202d round \u2067and back\u2069\u2069 again \u202e", metadata: { lang: "en", "with.dot": 1 } },
    { _id: "unbroken", title: `zebra ${"y".repeat(400)}`, text: `zebra ${"x".repeat(1 << 20)}`, metadata: { lang: "none" } },
    { _id: "large", title: "A zebra of 5 MB", text: `A zebra. ${"Many words of no use follow. ".repeat(180_000)}`, metadata: { lang: "en", account: 1, [LONG]: 1, long: LONG } },
    { _id: "word", title: "\u200b\u2060", text: "zebra", metadata: { lang: "en", account: 9, year: 2012, tags: ["a", "b"] } },
    { _id: "hebrew", title: "זברה", text: "זברה היא יונק שחי באפריקה, zebra בלעז.", metadata: { lang: "he" } },
    { _id: "arabic", title: "الحمار الوحشي", text: "الحمار الوحشي حيوان يعيش في أفريقيا zebra.", metadata: { lang: "ar" } },
    { _id: "japanese", title: "シマウマ", text: "シマウマはアフリカに住む動物です。zebra と呼ばれる。", metadata: { lang: "ja" } },
    { _id: "emoji", title: "🦓".repeat(200), text: "🦓👨‍👩‍👧‍👦 zebra 𝔷𝔢𝔟𝔯𝔞 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!", metadata: null },
];

export async function hostile(browser) {
    const index = path.join(folder, "hostile");
    const lines = path.join(folder, "hostile.jsonl");
    const write = documents => {
        writeFileSync(lines, documents.map(document => `${JSON.stringify(document).replace('"account":1,', `"account":${ACCOUNTS[0]},`).replace('"account":9,', `"account":${ACCOUNTS[1]},`)}\n`).join(""));
        ehi("insert", "--index", index, lines);
    };
    ehi("create", "--index", index, "--model", MODEL, "--whole");
    write(DOCUMENTS);
    const program = await explore(index);
    const page = await open(browser, program.address);
    await ask(page, "zebra");
    await page.locator(".hit").nth(DOCUMENTS.length - 1).waitFor();
    assert.equal(await page.title(), "Search · hostile · ehi");
    const text = await page.locator("ol.hits").textContent();
    for (const part of ["<script>document.title", "onerror=", "{{constructor", "${alert(1)}", "<style>"]) assert.ok(text.includes(part), part);
    assert.equal(await page.locator("ol.hits :is(script, img, svg, style, a)").count(), 0, "text is text");
    // Each text in its own direction, without moving its surroundings.
    const bidi = page.locator('.hit[data-id="bidi"]');
    for (const part of ["h2 button", ".excerpt"]) assert.match(await bidi.locator(part).first().evaluate(own => getComputedStyle(own).unicodeBidi), /isolate|plaintext/);
    assert.equal(await page.locator('.hit[data-id="hebrew"] h2').evaluate(own => getComputedStyle(own).direction), "rtl");
    assert.equal(await page.locator('.hit[data-id="hebrew"] .excerpt').evaluate(own => getComputedStyle(own).direction), "rtl");
    const edges = await page.locator('.hit[data-id="hebrew"]').evaluate(own => ["h2 button", ".excerpt"].map(part => own.querySelector(part).getBoundingClientRect().right));
    assert.ok(Math.abs(edges[0] - edges[1]) < 4, `title and passage begin at one edge: ${edges}`);
    // A title that shows nothing: the id stands for it, once.
    const word = page.locator('.hit[data-id="word"]');
    assert.equal(await word.locator("h2").textContent(), "word");
    assert.equal(await word.locator(".id").count(), 0);
    await fits(page, "hostile hits");
    await accessible(page, "hostile hits");
    await page.screenshot({ path: path.join(PICTURES, "hostile-hits.png"), fullPage: true });
    await page.setViewportSize({ width: 360, height: 800 });
    await fits(page, "hostile hits, 360 pixels");
    await page.screenshot({ path: path.join(PICTURES, "hostile-hits-360.png"), fullPage: true });
    await page.setViewportSize({ width: 1280, height: 900 });

    // Each document opens as it is.
    for (const document of DOCUMENTS) {
        const own = page.locator(".hit").filter({ hasText: document._id.slice(0, 8) });
        const hit = (await own.count()) === 1 ? own : page.locator(`.hit[data-id=${JSON.stringify(document._id)}]`);
        await hit.locator("h2 button").click();
        const dialog = page.getByRole("dialog");
        await dialog.waitFor();
        const shown = await dialog.locator(".text").evaluate(text => text.textContent);
        assert.ok(await dialog.evaluate(own => own.scrollWidth <= own.clientWidth), `${document._id} fits the reader`);
        assert.ok(document.text.startsWith(shown) && shown.length >= Math.min(document.text.length, (1 << 18) - 16), document._id);
        assert.equal(await dialog.locator(":is(script, img, svg, style, a)").count(), 0);
        await page.keyboard.press("Escape");
    }

    // A value that is clicked is a filter; filters add up, and come off.
    await page.getByRole("button", { name: "lang: en", exact: true }).first().click();
    await page.waitForFunction(() => document.querySelectorAll(".hit").length === 4);
    await page.getByRole("button", { name: "tags: b", exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll(".hit").length === 1);
    await page.getByRole("button", { name: "Without the filter tags: b" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".hit").length === 4);
    await page.getByRole("button", { name: "Without the filter lang: en" }).click();
    await page.waitForFunction(all => document.querySelectorAll(".hit").length === all, DOCUMENTS.length);

    // A number that JavaScript would round, and a value too long for a filter.
    await page.getByRole("button", { name: `account: ${ACCOUNTS[0]}`, exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll(".hit").length === 1 && document.querySelector('.hit[data-id="large"]'));
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^Without the filter account/);
    assert.ok((await page.locator(".hit .chip").allTextContents()).every(text => text.length < 330));
    assert.equal(await page.getByRole("button", { name: /nnnn/ }).count(), 0);
    await page.getByRole("button", { name: /^Without the filter account/ }).click();
    await page.waitForFunction(all => document.querySelectorAll(".hit").length === all, DOCUMENTS.length);
    // The document that was asked for last is the one that is read.
    await page.route("**/api/document", async route => {
        if (route.request().postDataJSON().id === "large") await new Promise(resolve => setTimeout(resolve, 800));
        await route.continue().catch(() => {});
    });
    await page.locator('.hit[data-id="large"] h2 button').click();
    await page.locator('.hit[data-id="word"] h2 button').click();
    await page.waitForTimeout(1200);
    assert.equal(await page.locator("#reader-title").textContent(), "word");
    await page.keyboard.press("Escape");
    await page.unroute("**/api/document");
    // A question without a bound.
    await page.getByLabel("Question").fill("zebra ".repeat(20_000));
    await page.getByRole("alert").getByText("too long").waitFor();
    await ask(page, "zebra");

    // No hits.
    await page.getByLabel("Ranked by").selectOption("lexical");
    await ask(page, "+quetzalcoatl");
    await page.getByText("No hits.").waitFor();
    await accessible(page, "no hits");
    await page.getByLabel("Ranked by").selectOption("best");
    // Signs count in this mode too, so that the question before has no hits to explain.
    await ask(page, "zebra");

    await view(page, "Leaves");
    await page.getByText(/leaves have documents/).waitFor();
    await fits(page, "leaves of hostile documents");
    await accessible(page, "leaves of hostile documents");
    await view(page, "Why");
    await page.getByRole("region", { name: "Hits" }).waitFor();
    await fits(page, "why of hostile documents");

    // Another process writes: the page follows by itself.
    await view(page, "Search");
    await ask(page, "zebra");
    write([{ _id: "later", title: "A zebra that came later", text: "zebra" }]);
    await page.locator("#size", { hasText: `${DOCUMENTS.length + 1} documents` }).waitFor();
    await page.locator('.hit[data-id="later"]').waitFor();
    // It goes, and comes back.
    renameSync(index, `${index}-elsewhere`);
    await page.getByRole("alert").getByText("gone or cannot be read").waitFor();
    renameSync(`${index}-elsewhere`, index);
    await page.waitForFunction(() => document.getElementById("alert").textContent === "");
    // The page is loaded while the program does not answer.
    await page.route("**/api/about", route => route.abort());
    await page.reload();
    await page.getByRole("alert").getByText("does not answer").waitFor();
    await page.unroute("**/api/about");
    await page.locator(".hit").first().waitFor();
    assert.equal(await page.getByRole("alert").textContent(), "");
    program.kill();
    await page.getByRole("alert").getByText("The program does not answer").waitFor();
    await close(page);
    await judges(browser, index);
}

/** A judgment is confirmed where it was given, in the list and in the reader. */
async function judges(browser, index) {
    const program = await explore(index, "--judge");
    const page = await open(browser, program.address);
    await ask(page, "zebra");
    const hit = page.locator(".hit").first();
    const id = await hit.getAttribute("data-id");
    // Before anything else was asked for.
    await hit.getByRole("button", { name: "good" }).click();
    await hit.getByText("Judged good.").waitFor();
    // The list is drawn anew, as the judgment counts at once.
    await page.waitForFunction(id => {
        const { textContent, parentElement } = document.activeElement;
        return textContent === "good" && parentElement?.dataset.judged === id;
    }, id);
    await hit.locator("h2 button").click();
    const dialog = page.getByRole("dialog");
    await dialog.locator('[data-grade="2"][aria-pressed=true]').waitFor();
    await accessible(page, "the reader with judgments");
    await page.keyboard.press("n");
    await dialog.getByText("Judged wrong.").waitFor();
    await page.keyboard.press("Escape");
    // It counts at once: the hit is not the first any more.
    await page.locator(`.hit:first-child:not([data-id="${id}"])`).waitFor();
    const stored = JSON.parse(ehi("judgments", "--index", index, "--json"));
    assert.deepEqual([stored.question, stored.id, stored.grade], ["zebra", id, 0]);
    await close(page);
    await program.end();
}
