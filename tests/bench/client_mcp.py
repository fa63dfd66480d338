"""Drives `stemma mcp` and `/mcp` with the published Python SDK. `clients.py` runs it and counts the lines that begin with `ok` and `FAILED`."""

import argparse
import asyncio
import contextlib
import http.client
import json
import random
import socket
import statistics
import subprocess
import sys
import time

from jsonschema import Draft202012Validator
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

HARD_TOKENS = 20_000
LIST_TOKENS = 3_000
LIMIT_S = 20.0


class Checks:
    def __init__(self):
        self.failed = 0

    def check(self, name, good, detail=""):
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'}  {name:58} {detail}", flush=True)


@contextlib.asynccontextmanager
async def over_stdio(options, preset="all"):
    arguments = ["--store", options.store, "mcp", "--tools", preset]
    with open(f"{options.scratch}/stdio.log", "w") as log:
        async with stdio_client(StdioServerParameters(command=options.stemma, args=arguments), errlog=log) as (r, w):
            async with ClientSession(r, w) as session:
                await session.initialize()
                yield session


@contextlib.asynccontextmanager
async def over_http(options, preset="all"):
    url = f"http://127.0.0.1:{options.port}/mcp?tools={preset}"
    async with streamable_http_client(url) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


@contextlib.contextmanager
def query_server(options, *more):
    """`stemma query` on a free port; ended by its process, whatever happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [options.stemma, "--store", options.store, *more, "query", "--listen", f"127.0.0.1:{port}"]
    with open(f"{options.scratch}/query.log", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(300):
            if server.poll() is not None:
                raise SystemExit(f"the query service ended: {open(f'{options.scratch}/query.log').read()[-400:]}")
            with contextlib.suppress(OSError):
                if post(port, "/livez", None, method="GET")[0] == 200:
                    break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(timeout=30)


def post(port, path, body, method="POST", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    reply = connection.getresponse()
    answer = reply.status, reply.read().decode()
    connection.close()
    return answer


def plain(result):
    """A result as it went over the wire."""
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def data_of(result):
    """What a framework hands to a script: structured content where there is some, else the JSON of the text."""
    result = plain(result)
    return result["structuredContent"] if "structuredContent" in result else json.loads(result["content"][0]["text"])


async def agent(call, company, form, topic):
    """Walks from the library to a passage as scripts for PageIndex's four tools do; knows nothing of this server."""
    offset, document = 0, None
    while document is None:
        listing = await call("browse_documents", {"folder_id": "root", "recursive": False, "sort": "time", "offset": offset, "limit": 10})
        assert listing["success"] is True and isinstance(listing["next_steps"]["options"], list)
        for entry in listing["documents"]:
            assert {"name", "description", "status", "created_at"} <= set(entry)
            if company in entry["name"] and form in entry["name"]:
                document = entry
        if not listing["has_more"]:
            break
        offset = listing["next_offset"]
    assert document and document["status"] == "completed", "the document is listed"
    about = await call("get_document", {"doc_name": document["name"], "folder_id": None, "wait_for_completion": False})
    assert about["name"] == document["name"] and about["page_count"] > 20
    nodes, part = [], 1
    while True:
        answer = await call("get_document_structure", {"doc_name": document["name"], "part": part})
        structure = answer["structure"]
        nodes += structure if isinstance(structure, list) else [structure]
        if not answer.get("pagination", {}).get("has_more"):
            break
        part += 1
    flat, stack = [], list(nodes)
    while stack:
        node = stack.pop()
        assert {"title", "node_id", "start_index", "end_index"} <= set(node)
        flat.append(node)
        stack += node.get("nodes", [])
    node = min((node for node in flat if topic.lower() in node["title"].lower()), key=lambda node: node["start_index"])
    last = min(node["end_index"], node["start_index"] + 2)
    content = await call("get_page_content", {"doc_name": document["name"], "pages": f"{node['start_index']}-{last}"})
    assert content["total_pages"] == about["page_count"]
    text = "\n".join(page["text"] for page in content["content"])
    assert content["content"][0]["page"] == node["start_index"] and topic.lower() in text.lower()
    return f"{len(flat)} nodes in {part} parts, {len(content['content'])} pages, {len(text)} characters"


async def refusals(session, checks, over):
    """Wrong names are tool results with a code, in the envelope of PageIndex."""
    for arguments, code in [({"doc_name": "no such filing"}, "NOT_FOUND"), ({"doc_name": "FOOTLOCKER_2022_8K"}, "NOT_FOUND"), ({}, "INVALID_INPUT")]:
        result = plain(await session.call_tool("get_document", arguments))
        data = result["structuredContent"]
        good = result["isError"] and data["errorCode"] == code and data["error"] and data["next_steps"]["options"]
        good = good and len(data.get("candidates", [])) <= 5
        checks.check(f"{over}: refused: {json.dumps(arguments)}", good, data["error"])


def generated(rng, name, pages, sections, count):
    """Calls that a model might make, and some that none should."""
    words = ["revenue", "net income", "currency", "goodwill", "PFAS litigation", "capital expenditures 2022", "R&D", "$1,749", "dividends", "年", "?", "a" * 300]
    patterns = ["goodwill", r"\$[0-9,]+", "(", ".*", "^Item", "the", r"(a+)+$", "[", "million"]

    def number():
        return rng.choice([1, 2, 5, rng.randint(1, pages), pages, pages + 1, 0, -3, 10**12])

    def page_list():
        start = rng.randint(1, pages)
        end = rng.choice([start, start + 1, start + rng.randint(0, 40), pages, pages + 50])
        good = [f"{start}-{end}", f"{start}", f"{start},{max(1, start - 3)},{end}", f"1-{pages}"]
        return rng.choice(good * 3 + [f"{end + 1}-{start}", "x", "1-", "0-5"])

    def maybe(chance, key, value):
        return {key: value()} if rng.random() < chance else {}

    def one():
        section, doc = rng.choice(sections), rng.choice([name] * 6 + [name.rsplit(".", 1)[0], name.lower()] * 2 + [name[:-6], "nothing"])
        budget = maybe(0.6, "max_tokens", lambda: rng.choice([300, 1_000, 6_000, 9_000, 19_999, 20_000, 10**6, 1, "4000"]))
        kind = rng.randrange(12)
        if kind <= 2:
            return "get_page_content", {"doc_name": doc, "pages": page_list(), **budget}
        if kind == 3:
            return "get_page_content", {"doc_name": doc, "section_id": rng.choice([section] * 6 + ["9999", "x"]), **budget}
        if kind == 4:
            return "get_page_content", {"doc_name": doc, "item": rng.choice(["1", "1A", "7", "7A", "8", "9A", "15", "99"]), **budget}
        if kind == 5:
            return "fetch", {"id": rng.choice([doc, f"{doc}#{section}", f"{doc}#item-8", f"{doc}#p={page_list()}"]), **budget}
        if kind == 6:
            more = {**maybe(0.5, "context", lambda: rng.choice([0, 3, 10, 10, 99])), **maybe(0.5, "limit", lambda: rng.choice([1, 50, 200]))}
            return "grep_document", {"doc_name": doc, "pattern": rng.choice(patterns), "ignore_case": rng.random() < 0.5, **maybe(0.3, "offset", number), **more}
        if kind <= 8:
            more = {**maybe(0.5, "depth", lambda: rng.choice([1, 3, 9, 64])), **maybe(0.4, "part", number), **maybe(0.2, "node_id", lambda: section)}
            return "get_document_structure", {"doc_name": doc, "detail": rng.choice(["outline", "summary", "full"]), "format": rng.choice(["json", "outline"]), **more}
        if kind == 9:
            return "get_document", {"doc_name": doc}
        if kind == 10:
            return "search", {"query": rng.choice(words), **maybe(0.5, "scope", lambda: rng.choice([doc, f"{doc}#item-7", "/@form/10-K", "/"])), **maybe(0.5, "limit", lambda: rng.choice([1, 50, 51]))}
        more = {**rng.choice([{}, {}, {"query": rng.choice(words)}, {"sort": "relevance", "query": rng.choice(words)}, {"sort": "relevance"}]), **maybe(0.3, "where", lambda: "form=10-K and fiscal_year>=2020")}
        return "browse_documents", {**maybe(0.5, "recursive", lambda: True), **maybe(0.5, "limit", lambda: rng.choice([1, 10, 50, 0])), **maybe(0.3, "offset", number), **more}

    return [one() for _ in range(count)]


async def calls(session, tools, made, options, checks, over):
    validators = {tool["name"]: Draft202012Validator(tool["outputSchema"]) for tool in tools}
    times, errors, breaches, texts, slowest = [], {}, [], [], ("", 0.0)
    for name, arguments in made:
        began = time.monotonic()
        try:
            result = plain(await session.call_tool(name, arguments))
        except Exception as error:  # a protocol error, or the SDK's own check of the schema
            breaches.append(f"{name} {arguments}: {type(error).__name__} {str(error)[:120]}")
            continue
        times.append(time.monotonic() - began)
        if times[-1] > slowest[1]:
            slowest = (f"{name} {json.dumps(arguments)[:80]}", times[-1])
        data = result.get("structuredContent")
        breaches += [f"{name} {arguments}: {problem.message[:120]}" for problem in validators[name].iter_errors(data)]
        if result.get("isError"):
            errors[data["errorCode"]] = errors.get(data["errorCode"], 0) + 1
            if data["errorCode"] in ("INTERNAL_ERROR", "UNAVAILABLE") or data.get("code") == "answer.too_large":
                breaches.append(f"{name} {arguments}: {data['error']}")
        texts.append(json.dumps(result, ensure_ascii=False))
    sizes = count_tokens(options, texts)
    checks.check(f"{over}: {len(made)} calls fit their schemas, none is a protocol error", not breaches, "; ".join(breaches[:3]))
    checks.check(f"{over}: no result over {HARD_TOKENS} tokens", max(sizes) <= HARD_TOKENS, f"most {max(sizes)}, median {statistics.median(sizes):.0f}, mean {statistics.mean(sizes):.0f}")
    p50, p95 = (statistics.quantiles(times, n=100)[at - 1] * 1e3 for at in (50, 95))
    checks.check(f"{over}: none takes over {LIMIT_S:.0f} s", max(times) <= LIMIT_S, f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, most {max(times) * 1e3:.0f} ms ({slowest[0]})")
    refused = sum(errors.values())
    checks.check(f"{over}: most calls are answered", refused < len(made) / 2, f"{refused} refused: {errors}")


def count_tokens(options, texts):
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([options.count], input=lines, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


async def indexed(session):
    """Seconds until searches are answered; until then they say that the index is being made, and nothing else."""
    began = time.monotonic()
    while time.monotonic() - began < 120:
        data = data_of(await session.call_tool("search", {"query": "revenue", "limit": 1}))
        if data.get("code") != "index.building":
            return time.monotonic() - began if "results" in data else None
    return None


async def chain(session, name, checks, over):
    """Follows next_call through the longest Item: every page once, in order."""
    arguments, pages, steps = {"doc_name": name, "item": "8"}, [], 0
    while arguments and steps < 200:
        data = data_of(await session.call_tool("get_page_content", arguments))
        pages += [page["page"] for page in data["content"]]
        arguments, steps = data.get("next_call", {}).get("arguments"), steps + 1
    good = pages == sorted(set(pages)) and len(pages) > 20 and pages[-1] - pages[0] + 1 == len(pages)
    checks.check(f"{over}: an Item is read to its end", good, f"pages {pages[0]}-{pages[-1]} in {steps} calls")


async def transport(over, connect, options, checks):
    async with connect(options) as session:
        listed = plain(await session.list_tools())
        tools = listed["tools"]
        size = count_tokens(options, [json.dumps(listed, ensure_ascii=False)])[0]
        checks.check(f"{over}: tools/list of {len(tools)} tools", size <= LIST_TOKENS, f"{size} tokens")
        for tool in tools:
            Draft202012Validator.check_schema(tool["inputSchema"])
            Draft202012Validator.check_schema(tool["outputSchema"])
        reading = all(tool["annotations"]["readOnlyHint"] for tool in tools)
        checks.check(f"{over}: schemas are schemas, every tool only reads", reading)
        whole = data_of(await session.call_tool("browse_documents", {"recursive": True, "limit": 50}))
        filings = [document for document in whole["documents"] if document["metadata"].get("form") in ("10-K", "10-Q", "8-K")]
        largest = max(filings, key=lambda document: document["tokens"])
        name, pages = largest["name"], largest["page_count"]
        structure = data_of(await session.call_tool("get_document_structure", {"doc_name": name, "depth": 9, "format": "outline"}))
        sections = [line.split()[0] for line in structure["structure"].splitlines()]
        waited = await indexed(session)
        checks.check(f"{over}: the index is there", waited is not None, f"after {waited or 0:.1f} s")
        rng = random.Random(6)
        made = generated(rng, name, pages, sections, options.calls)
        print(f"        {over}: the largest filing is {name}: {pages} pages, {largest['tokens']} tokens")
        await calls(session, tools, made, options, checks, over)
        await chain(session, name, checks, over)
        await refusals(session, checks, over)

        async def call(tool, arguments):
            return data_of(await session.call_tool(tool, arguments))

        await agents(call, checks, f"{over}, all tools")
    async with connect(options, "pageindex") as session:
        async def as_text(tool, arguments):
            result = await session.call_tool(tool, arguments)
            return json.loads(result.content[0].text)

        await agents(as_text, checks, f"{over}, pageindex tools")
    async with connect(options, "openai") as session:
        found = json.loads((await session.call_tool("search", {"query": "capital expenditures of 3M in 2022"})).content[0].text)
        good = all({"id", "title", "url"} <= set(result) for result in found["results"]) and found["results"]
        fetched = json.loads((await session.call_tool("fetch", {"id": found["results"][0]["id"]})).content[0].text)
        good = good and {"id", "title", "text", "url", "metadata"} <= set(fetched)
        checks.check(f"{over}, openai tools: search, then fetch", bool(good), fetched["title"][:60])


async def agents(call, checks, over):
    for company, form, topic in [("3M", "10K", "Risk Factors"), ("JPMORGAN", "10Q", "Liquidity"), ("AMCOR", "10K", "Legal Proceedings")]:
        try:
            checks.check(f"{over}: an agent for PageIndex ({company})", True, await agent(call, company, form, topic))
        except Exception as error:
            checks.check(f"{over}: an agent for PageIndex ({company})", False, f"{type(error).__name__}: {error}")


async def main():
    parser = argparse.ArgumentParser()
    for name in ["stemma", "store", "count", "scratch"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--calls", type=int, default=1_000)
    options, checks = parser.parse_args(), Checks()
    await transport("stdio", over_stdio, options, checks)
    with query_server(options) as options.port:
        await transport("http", over_http, options, checks)
    print(f"{checks.failed} failed" if checks.failed else "all checks hold")
    sys.exit(1 if checks.failed else 0)


asyncio.run(main())
