// Every view at four widths in both schemes: nothing beyond the edge, contrast and labels as WCAG 2.2 AA has them.

import assert from "node:assert/strict";
import path from "node:path";
import { accessible, ask, close, ehi, explore, fits, folder, INDEX, open, PICTURES, view } from "./harness.mjs";

const WIDTHS = [360, 390, 1280, 2560];
const VIEWS = { Search: ".hit", Why: "svg.map rect", Leaves: ".card", State: "dl", Teach: "h2" };

export async function pictures(browser) {
    const program = await explore(INDEX);
    let address = program.address;
    const backgrounds = new Set();
    for (const colorScheme of ["light", "dark"]) {
        const page = await open(browser, address, { colorScheme });
        address = await program.another();
        await ask(page, "Does vitamin D protect against infection?");
        await page.getByLabel("Search in").selectOption("leaves:8");
        await view(page, "Leaves");
        await page.locator(".card").first().waitFor();
        for (const [name, part] of Object.entries(VIEWS)) {
            await view(page, name);
            await page.locator(part).first().waitFor();
            for (const width of WIDTHS) {
                await page.setViewportSize({ width, height: 900 });
                const where = `${name}, ${width} pixels, ${colorScheme}`;
                await fits(page, where);
                await accessible(page, where);
                if (name === "Why") await readable(page, width, where);
                await page.screenshot({ path: path.join(PICTURES, `${name.toLowerCase()}-${colorScheme}-${width}.png`) });
            }
        }
        backgrounds.add(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor));
        await close(page);
    }
    assert.equal(backgrounds.size, 2, "colours follow the scheme");
    await program.end();
    await empty(browser);
}

/** An index without documents: what to do is said in each view. */
async function empty(browser) {
    const index = path.join(folder, "empty");
    ehi("create", "--index", index, "--model", process.env.EHI_MODEL);
    const program = await explore(index);
    const page = await open(browser, program.address);
    for (const name of ["Why", "Leaves", "State"]) {
        await view(page, name);
        await page.locator("main").getByText("The index has no documents. “ehi insert” adds some.").waitFor();
        await accessible(page, `${name} of an empty index`);
    }
    await close(page);
    await program.end();
}

/** The map is drawn as wide as it is shown, so that its letters are as large as others. */
async function readable(page, width, where) {
    await page.waitForFunction(() => {
        const map = document.querySelector("svg.map");
        return Math.abs(map.getBoundingClientRect().width / map.viewBox.baseVal.width - 1) < 0.01;
    }, undefined, { timeout: 5000 }).catch(() => assert.fail(`${where}: the map is scaled`));
    // Leaves of a large tree are too small for that on a telephone.
    if (width > 1000) assert.ok(await page.locator("svg.map .place").count() > 0, where);
}
