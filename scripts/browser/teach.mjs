// Judging, learning, deciding and returning, on an index of a part of SciFact.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { accessible, ask, close, ehi, explore, fits, folder, open, PICTURES, view } from "./harness.mjs";

const DATA = process.env.EHI_DATA;
const MODEL = process.env.EHI_MODEL;
const QUESTIONS = 150;
const BEGINNING = 200;

/** Beginnings of documents that answer questions of the train split, and judgments that give each question the answer
 * of the one before: nothing that the model knows, so that learning changes something. */
function part() {
    const rows = readFileSync(path.join(DATA, "qrels/train.tsv"), "utf8").trim().split("\n").slice(1).map(line => line.split("\t"));
    const lines = readFileSync(path.join(DATA, "queries.jsonl"), "utf8").trim().split("\n").map(line => JSON.parse(line));
    const texts = new Map(lines.map(own => [own._id, own.text]));
    const chosen = rows.slice(0, QUESTIONS);
    const ids = new Set(chosen.map(([, id]) => id));
    const all = gunzipSync(readFileSync(path.join(DATA, "corpus.jsonl.gz"))).toString().trim().split("\n").map(line => JSON.parse(line));
    const documents = all.filter(own => ids.has(own._id)).map(own => JSON.stringify({ ...own, text: own.text.slice(0, BEGINNING) }));
    const judgments = chosen.map(([query], at) => ({ question: texts.get(query), id: chosen.at(at - 1)[1], grade: 1 }));
    return { documents, judgments };
}

/** What has the focus. */
function focused(page) {
    return page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
}

export async function teach(browser) {
    const index = path.join(folder, "teach");
    const file = name => path.join(folder, name);
    const { documents, judgments } = part();
    writeFileSync(file("part.jsonl"), `${documents.join("\n")}\n`);
    writeFileSync(file("judged.jsonl"), judgments.map(own => `${JSON.stringify(own)}\n`).join(""));
    // Seconds, not minutes.
    writeFileSync(file("settings.json"), JSON.stringify({ "encoder.trainable_layers": 1, "encoder.learning_rate": 1e-3, "encoder.max_document_tokens": 24, "schedule.epochs": 2, "schedule.indexer_epochs": 1 }));
    ehi("create", "--index", index, "--model", MODEL);
    ehi("insert", "--index", index, file("part.jsonl"));
    ehi("judge", "--index", index, "--file", file("judged.jsonl"));
    const stored = () => ehi("judgments", "--index", index, "--json").trim().split("\n").map(line => JSON.parse(line));
    const known = stored().length;

    const program = await explore(index, "--judge", "--config", file("settings.json"));
    const page = await open(browser, program.address);
    // By keys: the first hit right, the second wrong, the third taken back again.
    const question = "a question of a person";
    await ask(page, question);
    const ids = await page.locator(".hit").evaluateAll(hits => hits.map(hit => hit.dataset.id));
    await page.getByLabel("Question").press("ArrowDown");
    // A judgment moves the list at once.
    const hit = place => page.locator(`.hit[data-id="${ids[place]}"]`);
    const pressed = place => hit(place).locator("button[aria-pressed=true]");
    for (const [place, key, name] of [[0, "y", "right"], [1, "n", "wrong"], [2, "3", "best"]]) {
        await hit(place).locator("h2 button").focus();
        await page.keyboard.press(key);
        if (name !== "wrong") await pressed(place).getByText(name).waitFor();
        else await page.locator(`.hit:nth-child(2):not([data-id="${ids[place]}"])`).waitFor();
    }
    await page.keyboard.press("u");
    await page.waitForFunction(id => document.querySelector(`.hit[data-id="${id}"] [aria-pressed=true]`) === null, ids[2]);
    // By mouse.
    await hit(3).getByRole("button", { name: "good" }).click();
    await pressed(3).getByText("good").waitFor();
    await accessible(page, "search with judgments");
    const own = () => stored().filter(one => one.question === question).map(({ id, grade }) => [id, grade]).sort();
    assert.deepEqual(own(), [[ids[0], 1], [ids[1], 0], [ids[3], 2]].sort());
    // Letters of a question are letters.
    await ask(page, "yny3u");
    assert.equal(stored().length, known + 3);

    await view(page, "Teach");
    await page.getByText(`${known + 3} judgments`).waitFor();
    await page.getByRole("button", { name: `Undo: ${question}, ${ids[1]}` }).click();
    await page.getByText(`${known + 2} judgments`).waitFor();
    assert.deepEqual(own(), [[ids[0], 1], [ids[3], 2]].sort());
    assert.match(await focused(page), /^Undo: /, "the keys go on where one was");
    await page.getByText(/^Learning needs about 100 judged questions with a right document\. There are \d+/).waitFor();
    // What another page judges is shown, although it makes no other generation.
    const second = await open(browser, await program.another());
    await ask(second, question);
    const third = second.locator(`.hit[data-id="${ids[2]}"]`).getByRole("button", { name: "right" });
    await third.click();
    await page.getByText(`${known + 3} judgments`).waitFor({ timeout: 10_000 });
    await third.click();
    await page.getByText(`${known + 2} judgments`).waitFor({ timeout: 10_000 });
    await close(second);
    await fits(page, "teach");
    await accessible(page, "teach");

    const model = () => JSON.parse(ehi("stats", "--index", index, "--json")).model;
    const before = model();
    // Cancelled, nothing is changed.
    await page.getByRole("button", { name: "Learn", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("progressbar").waitFor();
    assert.equal(await focused(page), "Learning");
    await accessible(page, "learning");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Ending …").waitFor();
    assert.ok(await page.getByRole("button", { name: "Cancel" }).isDisabled());
    await page.getByText("Cancelled: the index is as before.").waitFor();
    assert.equal(model(), before);

    await page.getByRole("button", { name: "Learn", exact: true }).click();
    await page.getByRole("heading", { name: "Verdict" }).waitFor({ timeout: 300_000 });
    await page.getByText(/judged questions that it did not learn from, nDCG@10 is/).waitFor();
    const named = await page.getByRole("region", { name: "Better" }).or(page.getByRole("region", { name: "Worse" })).count();
    assert.ok(named > 0, "questions that got better or worse are named");
    assert.equal(model(), before, "nothing has changed before it is decided");
    // Searches continue meanwhile.
    await view(page, "Search");
    await ask(page, "cells");
    await view(page, "Teach");
    await accessible(page, "verdict");
    await page.screenshot({ path: path.join(PICTURES, "verdict.png") });
    // On a telephone no column is out of sight.
    await page.setViewportSize({ width: 390, height: 844 });
    for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        await fits(page, "verdict, 390 pixels");
        await accessible(page, "verdict, 390 pixels");
        const tables = page.getByRole("region", { name: /^(Better|Worse)$/ });
        assert.deepEqual(await tables.evaluateAll(all => all.filter(own => own.scrollWidth > own.clientWidth).length), 0);
        await page.screenshot({ path: path.join(PICTURES, `verdict-${colorScheme}-390.png`), fullPage: true });
    }
    await page.emulateMedia({ colorScheme: null });
    await page.setViewportSize({ width: 1280, height: 900 });
    // By keyboard: nothing is redrawn while it waits.
    await page.getByRole("button", { name: "Use it" }).focus();
    await page.waitForTimeout(1800);
    assert.equal(await focused(page), "Use it");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Learned" }).waitFor();
    assert.equal(await focused(page), "Learned");
    assert.notEqual(model(), before);
    // Leaves of the tree that is in service, and then of the one before.
    await view(page, "Leaves");
    const [tree] = (await page.getByText(/leaves have documents/).textContent()).match(/of [\d,]+ leaves/);
    await view(page, "Teach");
    await page.getByRole("button", { name: "Return to the model before" }).click();
    await page.getByText("The model before serves again.").waitFor();
    assert.equal(model(), before);
    await view(page, "State");
    await page.getByRole("region", { name: "Verdicts so far" }).locator("tbody tr").first().waitFor();
    await accessible(page, "state with a verdict");
    await view(page, "Leaves");
    await page.getByText(/judged or logged lead to them/).waitFor();
    await page.getByText(/^Before: /).first().waitFor();
    const [returned] = (await page.getByText(/leaves have documents/).textContent()).match(/of [\d,]+ leaves/);
    assert.notEqual(returned, tree, "the leaves are those of the tree in service");
    await view(page, "Why");
    await page.locator("svg.map rect.lit").first().waitFor();
    const numbers = await page.locator("svg.map").getAttribute("aria-label");
    assert.ok(numbers.includes(`${returned.slice(3)}`), numbers);
    await close(page);
    await program.end();
}
