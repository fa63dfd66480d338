"""Search without a model: pages of questions, names, what is absent, generated questions, latency; and what each score part is worth.

Figures are for half A (rules are made on it) and half B (only measured), next to plain BM25 over the same pages. Parts:
  pages       questions with known pages, the document known and over all documents
  names       the same questions with tickers, initials, short forms and typos instead of the company's name
  absent      questions about companies, years, words and topics that no document has, and about as many that are there
  generated   questions made from tables and headings of the archive
  figures     questions about tagged figures of HTML filings, in the words of their concepts
  context     whether the first prompt of `stemma ask` has the gold pages, and its size
  latency     over HTTP, one question after the other; with --old in turn with another binary
  fit         fits weights to the score parts of hits, and says what each is worth by leaving it out (cross-validated by document)
  strategies  tree search with a simulated model that knows the pages: recall, calls and tokens
"""

import json
import statistics
import time
import urllib.parse

import fit
import questions as made
from bm25 import Bm25
from harness import TRUTH, Server, Sim, Store, document_name, half_of, mean, percentile, read_lines, walk
from reader import Reader, pages_shown, questions_of

COMPANIES = json.loads((TRUTH / "names.json").read_text())["companies"]
STRATEGIES = ["single", "best_first", "beam", "mcts", "auto-with-model"]
# Questions of fewer words are left out where latency is measured.
MIN_WORDS = 20
PARTS = ["pages", "names", "absent", "generated", "figures", "context", "latency", "fit", "strategies"]


class Corpus:
    """A store, its pages, and the questions about it."""

    def __init__(self, bench, name, folder, rows):
        self.bench, self.name, self.folder, self.stores = bench, name, folder, {}
        self.store = self.store_of(bench.stemma)
        self.pages = self.store.pages(bench.scratch / f"pages-{name}")
        documents = {document for document, _ in self.pages}
        self.questions = [row | {"half": half_of(row["doc_name"])} for row in questions_of(rows) if row["doc_name"] in documents]
        self.bm25 = {None: Bm25(self.pages)}

    def store_of(self, binary):
        """The documents as ingested by a binary."""
        if binary not in self.stores:
            folder = self.bench.scratch / f"{self.name}-{len(self.stores)}"
            self.stores[binary] = Store(binary, folder).ingest("--ocr", "never", self.folder)
        return self.stores[binary]

    def search(self, questions, known, *options, env=None, store=None):
        rows = [{"id": row["id"], "query": row["question"]} | ({"doc": row["doc_name"]} if known else {}) for row in questions]
        return (store or self.store).search_batch(self.bench.scratch, rows, *options, env=env)

    def ranked(self, questions, known):
        """[(question, pages of Stemma, pages of BM25)], each page as (document, page)."""
        answers = self.search(questions, known)
        return [(row, [tuple(page) for page in answer.get("ranked_pages") or []], self.plain(row, known)) for row, answer in zip(questions, answers)]

    def plain(self, question, known):
        document = question["doc_name"] if known else None
        if document not in self.bm25:
            self.bm25[document] = Bm25({page: text for page, text in self.pages.items() if page[0] == document})
        return self.bm25[document].ranked(question["question"])

    def record_pages(self, label, questions, known, marks=None):
        """The share of questions with a gold page among the first pages, for Stemma and BM25."""
        ranked = self.ranked(questions, known)
        for count in (1, 5) if known else (1, 10):
            metric = f"{label}, {'document known' if known else 'all documents'}, page in {count}"
            for name, at in (("", 1), (", BM25", 2)):
                mark = (marks or {}).get((known, count)) if at == 1 else None
                self.bench.record_halves(metric + name, [row[0] | {"hit": is_hit(row[0], row[at], count)} for row in ranked], lambda row: row["hit"], mark=mark)
        if not known:
            for name, at in (("", 1), (", BM25", 2)):
                rows = [row[0] | {"hit": row[at][:1] and row[at][0][0] == row[0]["doc_name"]} for row in ranked]
                self.bench.record_halves(f"{label}, all documents, document first{name}", rows, lambda row: bool(row["hit"]))
        for question, own, _ in ranked:
            if question["half"] == "A" and not is_hit(question, own, 1):
                self.bench.note(f"{question['id']} {question['doc_name']} gold {question['gold_pages']}, first {own[:3]}: {question['question']}")


def is_hit(question, ranked, count):
    gold = {(question["doc_name"], page) for page in question["gold_pages"]}
    return any(page in gold for page in ranked[:count])


def pages(bench, corpora):
    marks = {"filings": {(True, 1): ">= .75", (True, 5): ">= .96", (False, 10): ">= .95"}}
    for corpus in corpora.values():
        for known in (True, False):
            corpus.record_pages(corpus.name, corpus.questions, known, marks.get(corpus.name))


def names(bench, corpora):
    corpus, everything = corpora["filings"], []
    for kind, rows in made.renamed(corpus.questions, COMPANIES).items():
        firsts = [row | {"hit": own[:1] and own[0][0] == row["doc_name"]} for row, own, _ in corpus.ranked(rows, False)]
        bench.record_halves(f"names: {kind}, document first", firsts, lambda row: bool(row["hit"]))
        everything += firsts
    bench.record_halves("names: all, document first", everything, lambda row: bool(row["hit"]), mark=">= .93")


def absent(bench, corpora):
    corpus = corpora["filings"]
    rows = made.made_up(corpus.pages, COMPANIES, json.loads((TRUTH / "absent.json").read_text()))
    answers = corpus.search(rows, False)
    said = [row | {"said": made.said(answer, row["term"] if row["absent"] else None)} for row, answer in zip(rows, answers)]
    for is_absent, label, mark in ((True, "absent: said so", ">= .95"), (False, "there: falsely said to be absent", "<= .02")):
        bench.record_halves(label, [row for row in said if row["absent"] == is_absent], lambda row: row["said"], mark=mark)
    answers = corpus.search(corpus.questions, False)
    known = [row | {"said": made.said(answer)} for row, answer in zip(corpus.questions, answers)]
    bench.record_halves("questions with a known page: falsely said to be absent", known, lambda row: row["said"])
    for row in said + known:
        if row["half"] == "A" and row["said"] != row.get("absent", False):
            bench.note(row["question"])


def generated(bench, corpora):
    for corpus in corpora.values():
        for kind, rows in made.generated(corpus.store, bench.scratch / "generated-trees").items():
            for known in (True, False):
                corpus.record_pages(f"{corpus.name}, generated from {kind}", rows, known)


def figures(bench, _):
    """The truth names the page of the tag; a hit is right if that is among its best pages."""
    folder, path = bench.data("html/filings", "html/questions.jsonl")
    rows = [{"id": row["id"], "question": row["question"], "doc_name": document_name(row["file"]), "displayed": row["displayed"],
             "gold_pages": sorted({place["page"] for place in row["gold"]})} for row in read_lines(path)]
    corpus = Corpus(bench, "html", folder, rows)
    # Halves by ticker: these issuers are in no list.
    corpus.questions = [row | {"half": "A" if row["doc_name"] < "I" else "B"} for row in corpus.questions]
    corpus.record_pages("tagged figures", corpus.questions, True, {(True, 1): ">= .80", (True, 5): ">= .95"})


def context(bench, corpora):
    reader = Reader()
    for corpus in corpora.values():
        # Answers are stored: a question asked again would be answered without a call.
        store, rows = corpus.store.copy(bench.scratch / f"context-{corpus.name}"), []
        for question in corpus.questions:
            reader.take()
            answer = store.json("ask", question["question"], "--in", question["doc_name"], "--mode", "search", expected=None, env=reader.environment())
            prompts = [prompt for _, prompt, _ in reader.take()]
            shown = set(pages_shown(prompts[0])) if prompts else set()
            # Of several sets of pages that suffice, the one that is shown most.
            found = max(mean([(question["doc_name"], page) in shown for page in pages]) for pages in question["gold_sets"])
            tokens = (answer.get("usage") or {}).get("prompt_tokens", 0) * len(prompts[0]) / sum(map(len, prompts)) if prompts else 0
            rows.append(question | {"found": found, "shown": len(shown), "tokens": tokens})
            if question["half"] == "A" and found < 1:
                bench.note(f"{question['id']} {question['doc_name']} gold {question['gold_pages']}, shown {sorted(page for _, page in shown)}")
        is_filings = corpus.name == "filings"
        bench.record_halves(f"{corpus.name}, gold pages in the context", rows, lambda row: row["found"], mark=">= .97" if is_filings else None)
        bench.record_halves(f"{corpus.name}, pages in the context", rows, lambda row: row["shown"])
        bench.record_halves(f"{corpus.name}, context", rows, lambda row: row["tokens"], "tokens", mark="<= 6000" if is_filings else None)
    reader.close()


def latency(bench, corpora):
    for corpus in corpora.values():
        asked = sorted({row["question"] for row in corpus.questions if len(row["question"].split()) >= MIN_WORDS})
        if not asked:
            continue

        def run(binary):
            with Server(corpus.store_of(binary)) as server:
                server.request("/v1/search?q=assets")
                before, times = server.cpu_s(), []
                for question in asked:
                    began = time.perf_counter()
                    server.request("/v1/search?" + urllib.parse.urlencode({"q": question}))
                    times.append((time.perf_counter() - began) * 1e3)
                return {"p50": statistics.median(times), "p95": percentile(times, 95), "CPU": (server.cpu_s() - before) * 1e3 / len(asked)}

        found = bench.in_turn(run, 3)
        for name, mark in (("p50", "<= 5"), ("p95", "<= 15"), ("CPU", None)):
            bench.record(f"{corpus.name}, {name} of a search over HTTP", found["new"][name], "ms", n=len(asked), old=found.get("old", {}).get(name), mark=mark)


def score_parts(bench, corpora):
    rows = []
    for corpus in corpora.values():
        for question in corpus.questions:
            hits = corpus.store.json("search", question["question"], "--in", question["doc_name"], "-n", "20", "--explain").get("hits", [])
            gold = set(question["gold_pages"])
            labels = [bool(gold & {page["page"] for page in hit.get("best_pages", [])}) for hit in hits]
            rows.append({"document": question["doc_name"], "hits": [hit.get("parts") or {} for hit in hits], "right": labels})
    for name, value, n in fit.report(rows):
        bench.record(name, value, n=n)


def strategies(bench, corpora):
    corpus = corpora["filings"]
    spans = {}
    for name, tree in corpus.store.trees(bench.scratch / "strategies-trees").items():
        for _, node in walk(tree["structure"]):
            children = node.get("nodes") or []
            last = children[0]["start_index"] if children else node["end_index"]
            spans[name, int(node["node_id"])] = node["start_index"], max(last, node["start_index"])
    for noise in (0.0, 0.2):
        with Sim(bench, questions=str(bench.data("dev/retrieval.jsonl")), noise=noise) as sim:
            for strategy in STRATEGIES:
                store = corpus.store.copy(bench.scratch / f"{strategy}-{noise}")
                answers = corpus.search(corpus.questions, True, "--strategy", strategy, env=sim.env, store=store)
                label = f"{strategy}{f', noise {noise}' if noise else ''}"
                rows = []
                for question, answer in zip(corpus.questions, answers):
                    chosen = [spans[name, int(section)] for name, section in (locator.split("#") for locator, _ in answer.get("sections") or [])]
                    found = mean([any(first <= page <= last for first, last in chosen) for page in question["gold_pages"]])
                    rows.append(question | {"found": found} | answer["reasoning"]["spent"])
                bench.record_halves(f"{label}: gold pages in chosen sections", rows, lambda row: row["found"])
                bench.record(f"{label}: calls a question", mean([row["calls"] for row in rows]), n=len(rows))
                bench.record(f"{label}: prompt tokens a question", mean([row["prompt_tokens"] for row in rows]), n=len(rows))


def main(bench):
    filings, more, general, asked, asked_general = bench.data("dev/pdf", "dev/more", "dev/general/pdf", "dev/retrieval.jsonl", "dev/general/questions.jsonl")
    corpora = {}
    if any(map(bench.wants, [part for part in PARTS if part != "figures"])):
        sets = (("filings", filings, asked), ("more", more, TRUTH / "questions.jsonl"), ("general", general, asked_general))
        corpora = {name: Corpus(bench, name, folder, read_lines(path)) for name, folder, path in sets if name in (bench.options.corpora or name)}
    for part, run in zip(PARTS, (pages, names, absent, generated, figures, context, latency, score_parts, strategies)):
        if bench.wants(part):
            run(bench, corpora)


def add_arguments(parser):
    parser.add_argument("--corpora", metavar="NAME,…", help="only these sets of documents: filings, more, general")
