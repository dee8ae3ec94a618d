// How long it takes from a key pressed to hits on the page of `ehi explore`, what the page weighs, and when it is
// first painted, in headless Chromium.
//
//     scripts/bench-explore INDEX QUESTIONS
//
// QUESTIONS has a question a line, which are typed key by key. A key's time begins with its `keydown` event and ends
// after the frame in which its hits were drawn; keys whose hits never came, since the next key was faster, are counted.

import { readFileSync } from "node:fs";
import { close, explore, launch, open } from "../scripts/browser/harness.mjs";

const [index, questions] = process.argv.slice(2);
const PAUSE = 150;
const browser = await launch();
const program = await explore(index);
const page = await open(browser, program.address);
const loaded = await page.evaluate(() => {
    const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const own = files.filter(file => !file.name.includes("/api/"));
    return {
        files: own.length,
        bytes: own.reduce((sum, file) => sum + file.encodedBodySize, 0),
        transferred: own.reduce((sum, file) => sum + file.transferSize, 0),
        paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    };
});
await page.evaluate(() => {
    window.times = [];
    let pressed = null;
    addEventListener("keydown", event => { pressed = event.timeStamp; window.keys = (window.keys ?? 0) + 1; }, true);
    new MutationObserver(() => {
        if (pressed === null) return;
        const began = pressed;
        pressed = null;
        requestAnimationFrame(() => {
            const channel = new MessageChannel();
            // Behind the frame.
            channel.port1.onmessage = () => window.times.push(performance.now() - began);
            channel.port2.postMessage(null);
        });
    }).observe(document.querySelector("ol.hits"), { childList: true });
});
const input = page.getByLabel("Question");
for (const question of readFileSync(questions, "utf8").trim().split("\n")) {
    await input.fill("");
    await page.waitForTimeout(PAUSE);
    await input.pressSequentially(question, { delay: PAUSE });
    await page.waitForTimeout(3 * PAUSE);
}
const { times, keys } = await page.evaluate(() => ({ times: window.times, keys: window.keys }));
times.sort((a, b) => a - b);
const at = share => times[Math.floor(share * (times.length - 1))].toFixed(1);
console.log(`${await page.locator("#size").textContent()}`);
console.log(`page: ${loaded.files} files, ${(loaded.bytes / 1024).toFixed(1)} KiB (${(loaded.transferred / 1024).toFixed(1)} KiB with heads), first contentful paint ${loaded.paint.toFixed(0)} ms`);
console.log(`keys: ${keys}, with hits ${times.length}; key to hits: median ${at(0.5)} ms, 90% ${at(0.9)} ms, 99% ${at(0.99)} ms, most ${at(1)} ms`);
await close(page);
await program.end();
await browser.close();
process.exit(0);
