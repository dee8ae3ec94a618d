// Lists and calls every tool of `ehi mcp`, with and without `--write`, by three clients from npm: both lines of the
// protocol's TypeScript package and the command line of its inspector. Run by `scripts/test-mcp-npm`.
//
// Usage: node main.mjs PROGRAM MODEL

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";

const [PROGRAM, MODEL] = process.argv.slice(2);
const READS = ["search", "get", "explain", "facets", "stats"];
const WRITES = ["insert", "delete", "judge"];
const QUESTION = "Does vitamin D protect against infection?";
const TOPICS = ["vitamin D and infection", "steeping of tea", "cells of the immune system", "roots of old trees"];

// Metadata of every kind, since a schema of an answer says what they may be; `insert` takes objects.
const KINDS = [{ number: 1, tags: ["a", "b"], empty: null, deep: { on: true } }, "a text", 7, null, [1, null], true];

function document(number) {
    const topic = TOPICS[number % TOPICS.length];
    const text = `A study of ${topic}, number ${number}. It measures ${topic} in ${number + 3} groups.`;
    return { id: `study/${number}`, title: topic, text, metadata: KINDS[number % KINDS.length] };
}

/** One call of each tool, in an order in which each succeeds. */
const CALLS = [
    ["search", { question: QUESTION, k: 3 }],
    ["search", { question: "+vitamin", k: 50, mode: "lexical", passage_bytes: 0 }],
    ["search", { question: QUESTION, mode: "hybrid", filter: { number: { $gte: 1 } } }],
    ["search", { question: "nothing", filter: { absent: 1 } }],
    ["get", { id: "study/0" }],
    ["get", { id: "study/1", part: "metadata" }],
    ["explain", { question: QUESTION, k: 2, mode: "hybrid", exact: true }],
    ["explain", { question: QUESTION, beam: 2 }],
    ["facets", { fields: ["number", "absent"], filter: { number: { $gte: 1 } }, most: 3 }],
    ["stats", {}],
    ["insert", { documents: [document(102), { id: "plain", text: "Moss grows on stones." }, { id: "", text: "x" }] }],
    ["judge", { question: QUESTION, id: "study/0", grade: 2, weight: 0.5 }],
    ["judge", { question: QUESTION, id: "study/0", forget: true }],
    ["delete", { ids: ["plain", "absent"] }],
];

function run(args, input = "") {
    return execFileSync(PROGRAM, args, { input, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });
}

function check(tool, result) {
    assert.ok(!result.isError, `${tool}: ${JSON.stringify(result)}`);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent, tool);
    return result.structuredContent;
}

/** Every tool by one of the packages, which checks each answer against the tool's schema. */
async function everyTool(index, [Client, Stdio], writes) {
    const client = new Client(
        { name: "test", version: "1" },
        { capabilities: { roots: { listChanged: true }, sampling: {}, elicitation: {} } },
    );
    const args = ["mcp", "--index", index, "--about", "Studies", ...(writes ? ["--write"] : [])];
    await client.connect(new Stdio({ command: PROGRAM, args }));
    try {
        await client.ping();
        await client.sendRootsListChanged();
        const { tools } = await client.listTools();
        const offered = writes ? [...READS, ...WRITES] : READS;
        assert.deepEqual(tools.map((tool) => tool.name), offered);
        for (const [name, given] of CALLS.filter(([name]) => offered.includes(name))) {
            check(name, await client.callTool({ name, arguments: given }));
        }
        const wrong = await client.callTool({ name: "search", arguments: { question: "x", k: 51 } });
        assert.ok(wrong.isError && wrong.content[0].text.includes("from 1 to 50"));
        await assert.rejects(client.callTool({ name: "grep", arguments: {} }), { code: -32602 });
        const { resourceTemplates } = await client.listResourceTemplates();
        assert.equal(resourceTemplates[0].uriTemplate, "ehi://document/{id}");
        const { resources } = await client.listResources();
        const { contents } = await client.readResource({ uri: resources[0].uri });
        assert.ok(contents[0].text.includes("A study of"));
        if (writes) {
            await progressAndCancellation(client);
        }
    } finally {
        await client.close();
    }
}

async function progressAndCancellation(client) {
    const documents = (from, count) => Array.from({ length: count }, (_, number) => ({ ...document(from + number), metadata: KINDS[0] }));
    const told = [];
    const insert = (documents, options) =>
        client.callTool({ name: "insert", arguments: { documents } }, ...options);
    // The older line of the package has the schema of results in between.
    const place = (options) => (client instanceof Client1 ? [undefined, options] : [options]);
    const onprogress = ({ progress, total }) => told.push([progress, total]);
    const whole = await insert(documents(200, 70), place({ onprogress }));
    assert.equal(check("insert", whole).inserted + whole.structuredContent.replaced, 70);
    assert.deepEqual(told.at(-1), [70, 70]);
    const stop = new AbortController();
    const started = { onprogress: () => stop.abort(), signal: stop.signal };
    await assert.rejects(insert(documents(1_000, 1_000), place(started)));
    const ids = documents(1_000, 1_000).map((own) => own.id);
    const { deleted } = check("delete", await client.callTool({ name: "delete", arguments: { ids } }));
    assert.ok(deleted >= 32 && deleted < 1_000, `${deleted} stored before it was cancelled`);
}

/** Every tool by the inspector's command line, a session for each call. */
function inspector(index, writes) {
    const cli = join(import.meta.dirname, "node_modules/@modelcontextprotocol/inspector-cli/build/cli.js");
    const inspect = (...rest) => {
        const args = [cli, "--cli", PROGRAM, "mcp", "--index", index, ...(writes ? ["--write"] : []), ...rest];
        const stdio = ["ignore", "pipe", "pipe"];
        return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", stdio }));
    };
    const { tools } = inspect("--method", "tools/list");
    const offered = writes ? [...READS, ...WRITES] : READS;
    assert.deepEqual(tools.map((tool) => tool.name), offered);
    const called = new Set();
    for (const [name, given] of CALLS.filter(([name]) => offered.includes(name))) {
        const isFirst = !called.has(name);
        called.add(name);
        if (isFirst) {
            const word = (value) => (typeof value === "string" ? value : JSON.stringify(value));
            const words = Object.entries(given).flatMap(([key, value]) => ["--tool-arg", `${key}=${word(value)}`]);
            check(name, inspect("--method", "tools/call", "--tool-name", name, ...words));
        }
    }
    assert.equal(inspect("--method", "resources/templates/list").resourceTemplates.length, 1);
    assert.equal(inspect("--method", "resources/read", "--uri", "ehi://document/study%2F2").contents.length, 1);
}

const folder = mkdtempSync(join(tmpdir(), "ehi-mcp-"));
let passed = 0;
try {
    const index = join(folder, "index");
    run(["create", "--index", index, "--model", MODEL]);
    const lines = Array.from({ length: 24 }, (_, number) => {
        const { id, ...rest } = document(number);
        return JSON.stringify({ _id: id, ...rest });
    });
    run(["insert", "--index", index, "-"], lines.join("\n"));
    for (const writes of [false, true]) {
        for (const [name, client] of [["sdk", [Client1, Stdio1]], ["client", [Client2, Stdio2]]]) {
            await everyTool(index, client, writes);
            console.log(`@modelcontextprotocol/${name}${writes ? ", --write" : ""}`);
            passed += 1;
        }
        inspector(index, writes);
        console.log(`@modelcontextprotocol/inspector-cli${writes ? ", --write" : ""}`);
        passed += 1;
    }
    run(["verify", "--index", index]);
    console.log(`${passed} passed, 0 failed`);
} finally {
    rmSync(folder, { recursive: true, force: true });
}
