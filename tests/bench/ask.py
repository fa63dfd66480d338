"""Measures the cost of a hundred simultaneous answers, and whether anything false is shown as verified.

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
SINGLE = 12 if QUICK else 24
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
    """`stemma query`, or `stemma serve`, over a copy of the base store."""

    def __init__(self, store, sim, command="query", **settings):
        self.store = SCRATCH / store
        if not self.store.exists():
            shutil.copytree(SCRATCH / "base", self.store, copy_function=os.link)
        command = [STEMMA, "--store", str(self.store), command, "--listen", "127.0.0.1:0"]
        env = environment(sim, **PRICES, **settings)
        self.log = open(SCRATCH / f"{store}.log", "a", encoding="utf-8")
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            self.log.write(line)
            if "127.0.0.1:" in line and ("started" in line or line.startswith("http://")):
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

    def submit(self, path):
        """Sends a document to be ingested."""
        mark = "0123456789abcdef"
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="again-{path.name}"\r\nContent-Type: application/pdf\r\n\r\n'
        # Another digest, so that it is another document.
        body = head.encode() + path.read_bytes() + b"\n% again\n" + f"\r\n--{mark}--\r\n".encode()
        headers = {"content-type": f"multipart/form-data; boundary={mark}", "api_key": "any"}
        request = urllib.request.Request(self.url + "/doc/", body, headers)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)

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


def one_by_one(server, count, turns):
    """The median of single asks, one after the other: what a person waits. Each is another question to the store, and the words
    to the model differ."""
    seconds = []
    for at in range(count):
        question = EACH[at % len(EACH)]
        asked = question | {"question": f"{question['question']} ({turns + at})"}
        seconds.append(server.ask(asked)[1])
    return statistics.median(seconds)


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


def words_of(document, quote):
    """Boxes of the words of a quote on the pages of another reader, in shares of the page; None where it does not find them."""
    wanted = squash(quote)
    for start, page in enumerate(document):
        words = [(page, word) for page in document[start : start + 2] for word in page[1]]
        letters = [squash(word[4]) for _, word in words]
        for at in range(len(document[start][1])):
            said, end = "", at
            while end < len(words) and wanted.startswith(said) and len(said) < len(wanted):
                said += letters[end]
                end += 1
            if said == wanted:
                box = lambda page, word: (page[0], word[0] / page[2], word[1] / page[3], word[2] / page[2], word[3] / page[3])
                return [box(page, word) for page, word in words[at:end] if squash(word[4])]
    return None


def overlap(ours, theirs, tall):
    """Area that both cover over area that either covers, in cells of a thousandth of a page. Not tall: along the lines alone, for readers
    differ on how high a letter is."""
    def cells(boxes):
        found = set()
        for page, left, top, right, bottom in boxes:
            middle = (top + bottom) / 2
            ys = range(int(top * 1_000), int(bottom * 1_000) + 1) if tall else [int(middle * 100)]
            found |= {(page, x, y) for x in range(int(left * 1_000), int(right * 1_000)) for y in ys}
        return found
    one, other = cells(ours), cells(theirs)
    if not tall:
        # The middle of a line may fall on either side of a border between cells.
        return max(len(one & moved) / len(one | moved) for moved in ({(p, x, y + by) for p, x, y in other} for by in (-1, 0, 1)))
    return len(one & other) / max(1, len(one | other))


def rectangles(answers):
    """How well rectangles cover the words of quotes, as another reader of the same files sees words."""
    try:
        import pymupdf
    except ImportError:
        print("  rectangles: skipped: no PyMuPDF")
        return
    files = {path.name: path for path in (DATA / "dev/pdf").rglob("*.pdf")}
    opened, along, whole, lost = {}, [], [], 0
    citations = {(c["doc_id"], c["page"], c["quote"]): c for found, _ in answers for c in found["citations"] if c["rects"] and c["verified"] in ("exact", "normalised")}
    for citation in citations.values():
        document = opened.setdefault(citation["name"], pymupdf.open(files[citation["name"]]))
        pages = []
        for number in (citation["page"], citation["page"] + 1):
            if number <= len(document):
                page = document[number - 1]
                pages.append((number, page.get_text("words"), page.rect.width, page.rect.height))
        theirs = words_of(pages, citation["quote"])
        if theirs is None:
            lost += 1
            continue
        ours = [(r["page"], r["x"], r["y"], r["x"] + r["w"], r["y"] + r["h"]) for r in citation["rects"]]
        along.append(overlap(ours, theirs, tall=False))
        whole.append(overlap(ours, theirs, tall=True))
    share = sum(one >= 0.8 for one in along) / max(1, len(along))
    print(
        f"  rectangles of {len(along)} quotes against PyMuPDF's words ({lost} it reads otherwise): along the lines median IoU "
        f"{statistics.median(along):.2f}, {share:.0%} at .8 or more; with heights median {statistics.median(whole):.2f}"
    )
    check(along and statistics.median(along) >= 0.8, "rectangles cover the quote")


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
    latency(f"{AT_ONCE} at once", first, began)
    claims, verified, false = shown(first, TEXTS)
    outcomes = [found["outcome"] for found, _ in first]
    print(f"  {outcomes.count('answered')} answered, {outcomes.count('not_in_documents')} not in what was read, {claims} claims, {verified} verified")
    check(false == 0, "every citation shown as verified stands on its page")
    rectangles(first)
    calls = sim.report()["calls"]
    again = server.all(MANY)
    same = all(one["id"] == two["id"] and one["citations"] == two["citations"] for (one, _), (two, _) in zip(first, again))
    check(sim.report()["calls"] == calls and same, "the same questions again: no call, same ids and citations")
    check(streams(server) == min(10, len(EACH)), "what is streamed is what is stored")

print("an ingestion beside it, in the same process, under the same limits of the provider")
SHARED = {"model__requests_per_minute": REQUESTS_PER_MINUTE, "structure": "llm"}
with Sim(known=False, limits__requests_per_minute=REQUESTS_PER_MINUTE, **GOLD) as sim, Server("beside", sim, "serve", **SHARED) as server:
    one_by_one(server, 3, 40)  # what is read the first time
    alone = one_by_one(server, SINGLE, 50)
    for path in sorted((DATA / "dev/pdf").rglob("*.pdf")):
        server.submit(path)
    deadline = time.monotonic() + 120
    while sim.report()["calls"] < 2 * SINGLE + 60 and time.monotonic() < deadline:
        time.sleep(0.2)
    calls = sim.report()["calls"]
    beside = one_by_one(server, SINGLE, 50 + SINGLE)
    bulk = sim.report()["calls"] - calls - SINGLE
print(f"  median of single asks: {alone:.3f} s alone, {beside:.3f} s beside {bulk} calls of an ingestion ({beside / alone - 1:+.0%})")
check(bulk > SINGLE, "the ingestion was under way")
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
