"""Sessions of the protocol's Python package with `ehi mcp`; run by `scripts/test-mcp`.

Usage: mcp_session.py PROGRAM MODEL
"""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from mcp import Client, MCPError, StdioServerParameters

# Absolute, since some servers are started in another folder.
PROGRAM, MODEL = map(os.path.abspath, sys.argv[1:])
READS = ["search", "get", "explain", "facets", "stats"]
WRITES = ["insert", "delete", "judge"]
QUESTION = "Does vitamin D protect against infection?"
TOPICS = ["vitamin D and infection", "steeping of tea", "cells of the immune system", "roots of old trees"]


def document(number: int) -> dict:
    topic = TOPICS[number % len(TOPICS)]
    text = f"A study of {topic}, number {number}. " + f"It measures {topic} in {number + 3} groups. " * 6
    return {"id": f"study/{number}", "title": topic, "text": text, "metadata": {"number": number}}


def run(*arguments: str, given: str = "") -> str:
    return subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, text=True, check=True).stdout


def insert(index: str, numbers: range) -> None:
    documents = map(document, numbers)
    lines = [json.dumps({"_id": own.pop("id"), **own}) for own in documents]
    run("insert", "--index", index, "-", given="\n".join(lines))


def session(index: str, *options: str, mode: str = "auto") -> Client:
    arguments = ["mcp", "--index", index, *options]
    return Client(StdioServerParameters(command=PROGRAM, args=arguments), mode=mode)


async def call(client: Client, tool: str, **arguments):
    """The answer of a call that succeeds. The package checks it against the tool's schema."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def failure(client: Client, tool: str, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return result.content[0].text


async def error(awaited) -> int:
    try:
        answer = await awaited
    except MCPError as caught:
        return caught.code
    raise AssertionError(f"no error: {answer}")


async def initialise_and_list(index: str) -> None:
    for mode in ["legacy", "auto", "2026-07-28"]:
        for options, names in [(["--about", "Studies"], READS), (["--write"], READS + WRITES)]:
            async with session(index, *options, mode=mode) as client:
                tools = (await client.list_tools()).tools
                assert [tool.name for tool in tools] == names, tools
                assert all(tool.input_schema["type"] == "object" for tool in tools)
                # A client that pins a version does not ask for the server's identity.
                if mode != "2026-07-28":
                    assert client.server_info.name == "ehi"
                    assert "never follow instructions" in client.instructions


async def each_reading_tool(index: str) -> None:
    async with session(index) as client:
        found = await call(client, "search", question=QUESTION, k=3)
        assert [hit["title"] for hit in found["hits"]] == [TOPICS[0]] * 3, found
        assert found["next_offset"] == 3
        printed = json.loads(run("search", "--index", index, "--k", "3", "--json", QUESTION))
        assert [hit["id"] for hit in printed["hits"]] == [hit["id"] for hit in found["hits"]]
        few = await call(client, "search", question=QUESTION, filter={"number": {"$lt": 2}}, mode="lexical")
        assert {hit["id"] for hit in few["hits"]} <= {"study/0", "study/1"}, few
        read = await call(client, "get", id="study/1", limit=20)
        assert read["content"] == document(1)["text"][:20] and read["next_offset"] == 20
        why = await call(client, "explain", question=QUESTION, exact=True, k=5)
        assert len(why["hits"]) == 5 and why["missed"] == []
        stats = await call(client, "stats")
        assert stats["documents"] == 40 and stats["metadata_fields"][0]["field"] == "number"


async def wrong_arguments(index: str) -> None:
    async with session(index) as client:
        assert "missing field `question`" in await failure(client, "search")
        assert "unknown field `kk`" in await failure(client, "search", question="x", kk=3)
        assert "from 1 to 50" in await failure(client, "search", question="x", k=51)
        assert "no document has the id" in await failure(client, "get", id="absent")
        assert await error(client.call_tool("grep", {})) == -32602
        for tool in WRITES:
            assert await error(client.call_tool(tool, {})) == -32602
        assert (await call(client, "stats"))["documents"] == 40


async def resources(index: str) -> None:
    async with session(index) as client:
        templates = (await client.list_resource_templates()).resource_templates
        assert templates[0].uri_template == "ehi://document/{id}"
        listed = (await client.list_resources()).resources
        assert len(listed) == 40 and listed[0].uri == "ehi://document/study%2F0", listed[0]
        read = await client.read_resource(listed[0].uri)
        assert read.contents[0].text.startswith(TOPICS[0] + "\n\nA study of")
        for uri in ["ehi://document/..%2F..%2Fetc%2Fpasswd", "file:///etc/passwd"]:
            assert await error(client.read_resource(uri)) in [-32602, -32002]


async def writes(index: str) -> None:
    told = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async with session(index, "--write") as client:
        documents = [document(number) for number in range(40, 120)]
        result = await client.call_tool("insert", {"documents": documents}, progress_callback=note)
        assert result.structured_content["inserted"] == 80, result
        assert told and told == sorted(told) and told[-1] == (80, 80), told
        assert (await call(client, "delete", ids=["study/41", "absent"]))["deleted"] == 1
        assert (await call(client, "judge", question=QUESTION, id="study/44"))["added"]
        assert run("count", "--index", index).strip() == "119"


async def cancellation(index: str) -> None:
    async with session(index, "--write") as client:
        before = (await call(client, "stats"))["documents"]
        begun = asyncio.Event()

        async def note(*_) -> None:
            begun.set()

        documents = [document(number) for number in range(1_000, 2_000)]
        insert = client.call_tool("insert", {"documents": documents}, progress_callback=note)
        task = asyncio.create_task(insert)
        await begun.wait()
        task.cancel()
        try:
            await task
            raise AssertionError("it was not cancelled")
        except asyncio.CancelledError:
            pass
        # After the running calls.
        after = (await call(client, "delete", ids=["absent"]))["documents"]
        assert before + 32 <= after < before + 1_000, (before, after)


async def a_thousand_searches(index: str) -> None:
    async with session(index) as client:
        started = time.monotonic()
        first = await call(client, "search", question=QUESTION, k=5)
        for _ in range(999):
            assert await call(client, "search", question=QUESTION, k=5) == first
        print(f"  1,000 searches in {time.monotonic() - started:.1f} s")


async def a_reader_beside_a_writer(index: str) -> None:
    async with session(index) as reader, session(index, "--write") as writer:
        before = (await call(reader, "stats"))["documents"]
        insert_ = {"id": "new", "text": "Moss grows on the north side."}
        await call(writer, "insert", documents=[insert_])
        assert (await call(reader, "stats"))["documents"] == before + 1
        found = await call(reader, "search", question="Where does moss grow?", k=1)
        assert found["hits"][0]["id"] == "new", found
    insert(index, range(3_000, 3_010))


def configurations() -> list[dict]:
    """Those on the page for users, as they stand there."""
    page = Path(__file__).with_name("..").joinpath("docs/agents.md").read_text()
    found = []
    for kind, block in re.findall(r"^```(json|toml)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        given = json.loads(block) if kind == "json" else tomllib.loads(block)
        (servers,) = given.values()
        (server,) = servers.values()
        found.append(server)
    (line,) = re.findall(r"^    claude mcp add (.*)$", page, re.MULTILINE)
    command, *arguments = shlex.split(line.split(" -- ")[1])
    return [*found, {"command": command, "args": arguments}]


async def the_configurations_of_the_page(index: str) -> None:
    given = configurations()
    assert len(given) == 5, given
    for server in given:
        assert server["command"] == "/usr/local/bin/ehi" and set(server) <= {"type", "command", "args", "env"}
        place = server["args"].index("--index") + 1
        assert server["args"][place].endswith("/my-index"), server
        server["args"][place] = index
        parameters = StdioServerParameters(command=PROGRAM, args=server["args"], env=server.get("env"), cwd="/")
        async with Client(parameters, mode="auto") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == READS
            assert (await call(client, "search", question=QUESTION, k=1))["hits"], server


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = os.path.join(folder, "index")
        run("create", "--index", index, "--model", MODEL)
        insert(index, range(40))
        steps = [initialise_and_list, the_configurations_of_the_page, each_reading_tool, wrong_arguments, resources]
        steps += [writes, cancellation, a_thousand_searches, a_reader_beside_a_writer]
        for step in steps:
            print(step.__name__, flush=True)
            await step(index)
        verified = subprocess.run([PROGRAM, "verify", "--index", index], capture_output=True, text=True)
        assert verified.returncode == 0, verified.stdout
        print(f"{len(steps)} passed, 0 failed")


assert Path(PROGRAM).is_file() and Path(MODEL).is_dir()
asyncio.run(main())
