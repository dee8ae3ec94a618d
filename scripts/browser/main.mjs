// All checks, or those that are named: search, hostile, teach, pictures.

import { clean, launch } from "./harness.mjs";
import { hostile } from "./hostile.mjs";
import { pictures } from "./pictures.mjs";
import { search } from "./search.mjs";
import { teach } from "./teach.mjs";

const CHECKS = { search, hostile, teach, pictures };
const named = process.argv.slice(2);
const browser = await launch();
try {
    for (const [name, check] of Object.entries(CHECKS)) {
        if (named.length > 0 && !named.includes(name)) continue;
        const started = performance.now();
        await check(browser);
        console.log(`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
    }
} finally {
    await browser.close();
    clean();
}
// Exit even if a check has left a program running.
process.exit(0);
