"""Answers in words: what a hundred at once cost, and whether anything false is shown as verified.

Marks: every answer within its budget of calls and tokens; with a lying model no claim is verified whose numbers or quotes are
false; an ingestion beside it makes the median ask at most a fifth slower; the same questions again cost nothing and have the
same ids and citations; what is streamed is what is stored.
"""

import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

from bench import DATA, SCRATCH, STEMMA, Sim, answer, check, environment, finish, ingest, pages, squash, stemma

QUICK = "--quick" in sys.argv[1:]
AT_ONCE = 20 if QUICK else 100
LATENCY_MS = 300
REQUESTS_PER_MINUTE = 1_200
PRICES = {"model__prices__input": "0.15", "model__prices__output": "0.6"}
LIMITS = {"calls": 4, "tokens": 40_000}


def base():
    """A store of the dev documents, ingested without a model."""
    store = SCRATCH / "base"
    if os.environ.get("STORE"):
        shutil.copytree(os.environ["STORE"], store, copy_function=os.link)
    else:
        ingest("base", DATA / "dev/pdf")
    stemma("base", "-q", "search", "assets", "-n", "1", check=False)  # makes the index


def questions():
    lines = [json.loads(line) for line in open(DATA / "dev/retrieval.jsonl", encoding="utf-8")]
    lines = [line for line in lines if line["pdf_present"] and line["gold_pages"]]
    return [lines[at % len(lines)] for at in range(AT_ONCE)], lines


class Server:
    """`stemma query` over a copy of the base store."""

    def __init__(self, store, sim, **settings):
        self.store = SCRATCH / store
        if not self.store.exists():
            shutil.copytree(SCRATCH / "base", self.store, copy_function=os.link)
        command = [STEMMA, "--store", str(self.store), "query", "--listen", "127.0.0.1:0"]
        env = environment(sim, **PRICES, **settings)
        self.log = open(SCRATCH / f"{store}.log", "a", encoding="utf-8")
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            self.log.write(line)
            if "listen" in line and "started" in line:
                self.url = "http://127.0.0.1:" + line.split("127.0.0.1:")[1].split('"')[0].split()[0].strip(",}")
                break
        assert self.url, "the server did not start"
        concurrent.futures.ThreadPoolExecutor(1).submit(lambda: [self.log.write(line) for line in self.process.stderr])
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                self.post("/v1/search", {"query": "assets", "limit": 1})
                return
            except urllib.error.HTTPError:
                time.sleep(0.2)
        raise SystemExit("the server has no index")

    def post(self, path, body, accept="application/json"):
        headers = {"content-type": "application/json", "accept": accept}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, reply.read().decode()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=120) as reply:
            return json.load(reply)

    def ask(self, question, **more):
        """The answer, and the seconds until it was there."""
        began = time.monotonic()
        body = {"question": question["question"], "scopes": [question["doc_name"]], "limits": LIMITS} | more
        status, text = self.post("/v1/answers", body)
        found = json.loads(text)
        while status == 202:
            time.sleep(0.5)
            try:
                found = self.get(f"/v1/answers/{found['id']}")
                status = 200 if "outcome" in found else 202
            except urllib.error.HTTPError as error:
                raise SystemExit(f"{error.read().decode()}") from error
        return found, time.monotonic() - began

    def all(self, asked, **more):
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            return list(pool.map(lambda question: self.ask(question, **more), asked))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()


def latency(name, answers, began):
    seconds = sorted(seconds for _, seconds in answers)
    usage = [found["usage"] for found, _ in answers]
    calls, prompt, output = (sum(use[key] for use in usage) for key in ("calls", "prompt_tokens", "output_tokens"))
    dollars = sum(use.get("nanodollars") or 0 for use in usage) / 1e9
    median, high = statistics.median(seconds), seconds[int(0.95 * (len(seconds) - 1))]
    print(
        f"{name:<34} {len(answers):>4} asks in {time.monotonic() - began:5.1f} s  median {median:5.2f} s  p95 {high:5.2f} s  "
        f"calls {calls / len(answers):4.1f}  prompt {prompt / len(answers):6.0f}  reply {output / len(answers):4.0f} tokens  "
        f"${dollars / len(answers):.5f} each",
        flush=True,
    )
    over = [use for use in usage if use["calls"] > LIMITS["calls"] or use["prompt_tokens"] + use["output_tokens"] > LIMITS["tokens"]]
    check(not over, f"{name}: every answer within its budget")
    return median


def one_by_one(server, count=12):
    """The median of single asks, one after the other: what a person waits."""
    return statistics.median(server.ask(question, limits=LIMITS | {"turns": turn})[1] for turn, question in enumerate(EACH[:count], 50))


def shown(answers, texts):
    """Claims, those shown as verified, and those of them that no cited page bears out, read here by other means."""
    claims = verified = false = 0
    for found, _ in answers:
        quotes = {citation["id"]: citation for citation in found["citations"]}
        for claim in found["claims"]:
            claims += 1
            if not claim["verified"]:
                continue
            verified += 1
            for citation in (quotes[id] for id in claim["citations"]):
                name = citation["name"].removesuffix(".pdf")
                page = texts.get((name, citation["page"]), "") + texts.get((name, citation["page"] + 1), "")
                false += squash(citation["quote"]) not in squash(page)
            cited = squash(" ".join(quotes[id]["quote"] for id in claim["citations"]))
            false += "987654321" in squash(claim["text"]) and "987654321" not in cited
    return claims, verified, false


def streams(server, count=10):
    """Whether what is streamed is what is stored, under the same ids."""
    same = 0
    for question in EACH[:count]:
        body = {"question": question["question"], "scopes": [question["doc_name"]]}
        _, text = server.post("/v1/answers", body, "text/event-stream")
        frames = [dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line) for frame in text.strip().split("\n\n")]
        done = json.loads(frames[-1]["data"])
        stored = server.get(f"/v1/answers/{done['id']}")
        said = "".join(json.loads(frame["data"])["text"] for frame in frames if frame.get("event") == "delta")
        cited = [json.loads(frame["data"]) for frame in frames if frame.get("event") == "citation"]
        by_id = sorted(cited, key=lambda citation: int(citation["id"]))
        same += said == stored["text"] == done["text"] and by_id == stored["citations"] == done["citations"]
    return same


base()
MANY, EACH = questions()
if QUICK:
    EACH = EACH[:20]
TEXTS = pages("base")
GOLD = {"questions": str(DATA / "dev/retrieval.jsonl"), "latency__median_ms": LATENCY_MS}

print(f"{AT_ONCE} at once, a model that takes {LATENCY_MS} ms")
with Sim(known=False, **GOLD) as sim, Server("plain", sim) as server:
    began = time.monotonic()
    first = server.all(MANY)
    latency("100 at once", first, began)
    claims, verified, false = shown(first, TEXTS)
    outcomes = [found["outcome"] for found, _ in first]
    print(f"  {outcomes.count('answered')} answered, {outcomes.count('not_in_documents')} not in what was read, {claims} claims, {verified} verified")
    check(false == 0, "every citation shown as verified stands on its page")
    calls = sim.report()["calls"]
    again = server.all(MANY)
    same = all(one["id"] == two["id"] and one["citations"] == two["citations"] for (one, _), (two, _) in zip(first, again))
    check(sim.report()["calls"] == calls and same, "the same questions again: no call, same ids and citations")
    check(streams(server) == min(10, len(EACH)), "what is streamed is what is stored")

print("an ingestion beside it, over the same provider")
limits = {"model__requests_per_minute": REQUESTS_PER_MINUTE}
with Sim(known=False, limits__requests_per_minute=REQUESTS_PER_MINUTE, **GOLD) as sim:
    with Server("beside", sim, **limits) as server:
        alone = one_by_one(server)
    shutil.rmtree(SCRATCH / "beside")
    with Server("beside", sim, **limits) as server:
        words = ["--store", str(SCRATCH / "bulk"), "-q", "ingest", str(DATA / "dev/pdf")]
        env = environment(sim, structure="llm", **limits)
        bulk = subprocess.Popen([STEMMA, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(10)
        running = bulk.poll() is None
        beside = one_by_one(server)
        bulk.terminate()
        bulk.wait(timeout=60)
print(f"  median of single asks: {alone:.3f} s alone, {beside:.3f} s beside it ({beside / alone - 1:+.0%})")
check(running, "the ingestion was under way")
check(beside <= 1.2 * alone, "an ingestion beside it makes the median ask at most a fifth slower")

print("a model that lies, and one that does what pages say")
for name, behavior in {"lies": {"lies": 1.0}, "half lies": {"lies": 0.5}, "gullible": {"gullible": True}}.items():
    with Sim(known=False, **GOLD, **behavior) as sim, Server(name.replace(" ", "-"), sim) as server:
        answers = server.all(EACH)
        claims, verified, false = shown(answers, TEXTS)
        dropped = {key: sum(found["dropped"][key] for found, _ in answers) for key in answers[0][0]["dropped"]}
        print(f"  {name:<10} {claims} claims, {verified} verified, dropped: {dropped}")
        check(false == 0, f"{name}: no false claim is shown as verified")
        if name == "lies":
            check(verified == 0, "lies: nothing is shown as verified")
        scopes = all(citation["name"].removesuffix(".pdf") == question["doc_name"] for question, (found, _) in zip(EACH, answers) for citation in found["citations"])
        check(scopes, f"{name}: no citation outside the document that was asked")
finish()
