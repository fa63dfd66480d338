"""Answers with simulated models: which claims are shown as verified, what one call leaves open, latency and cost under load.

  claims  a reader that knows the tables of each page copies figures and computes with them, and errs in one of five claims: the share of
          right claims that are shown as verified, and of wrong ones (at most none). PyMuPDF, not Stemma, reads the tables of PDF files;
          the rows of HTML filings are those whose figures the filing tags
  open    a reader that answers only where it is shown the gold pages: what the first prompt has of them, questions answered, further
          calls and tokens of those left open
  load    a hundred questions at once, each call of the model taking 300 ms; with --old in turn with another binary
"""

import collections
import concurrent.futures
import json
import re
import subprocess
import time

from harness import TRUTH, Server, Store, by_half, document_name, half_of, mean, percentile, read_lines
from reader import HonestReader, questions_of, rows_of, shows_gold, text_shown
from table_reader import FAULTS, TableReader

QUESTIONS = [
    "What were revenue, cost of sales and net income?", "What do the balance sheets say about current assets and liabilities?",
    "What were the cash flows from operating, investing and financing activities?", "What were the results of the segments?",
    "What are the components of inventories, property and debt?", "How did income taxes and interest expense change?",
]
LATENCY_MS = 300
LIMITS = {"calls": 4, "tokens": 60_000}
# Of each question after the first call.
MAX_CALLS, MAX_TOKENS = 4, 15_000
# Rows of a table at least, and other lines between two of them at most.
TABLE_ROWS, MOST_BETWEEN = 6, 1
# What the first prompt of `open` has: measure, key and unit.
CONTEXT = [("gold pages in the first prompt", "gold", ""), ("tables of gold pages shown whole", "whole", ""), ("evidence shown", "evidence", ""),
           ("tokens of the first call", "first_tokens", "tokens")]


def claims(bench):
    folder = bench.data("dev/pdf")
    files = sorted(folder.rglob("*.pdf"))
    python = bench.venv("pymupdf")
    done = subprocess.run([python, TRUTH.parent / "bench/table_rows.py", *files], capture_output=True, text=True, check=True)
    known = {name: {int(page): rows for page, rows in pages.items()} for name, pages in json.loads(done.stdout).items()}
    store = bench.store("claims").ingest("--ocr", "never", folder)
    record_claims(bench, "PDF", store, known)
    if (bench.data_folder / "html/filings").is_dir():
        store = bench.store("claims-html").ingest(bench.data("html/filings"))
        known = {document_name(label): tagged_rows(store, label) for label in store.documents()}
        record_claims(bench, "HTML", store, known)


def tagged_rows(store, label):
    """{page: rows} of tables in which the filing tags each figure, in the form of table_rows.py."""
    found, labels = collections.defaultdict(list), collections.Counter()
    for info in store.json("tables", label, expected=None).get("tables", []):
        table = store.json("table", info["locator"])["table"]
        unit = re.search(r"(thousand|million|billion)", f"{table.get('unit')} {table.get('scale')}".lower())
        # A year that ends in January or February is called by two numbers.
        heads = [[] if re.search(r"\b(?:Jan|Feb)", column.get("head") or "") else re.findall(r"\b(?:19|20)\d\d\b", column.get("head") or "")
                 for column in table["columns"]]
        lengths = {match.lower() for column in table["columns"] for match in re.findall(r"(?:three|six|nine) months ended", (column.get("head") or "").lower())}
        for row in table["rows"]:
            cells = [(years[0], cell) for years, cell in zip(heads, row["cells"]) if cell and is_amount(cell) and len(years) == 1]
            years = [int(year) for year, _ in cells]
            values = [re.sub(r"[^\d,()]", "", cell["text"]) for _, cell in cells]
            labels[plain(row["label"])] += 1
            is_plain = unit and not lengths and len(cells) > 1 and len(set(years)) == len(years) and all(re.fullmatch(r"\(?\d[\d,]*\)?", value) for value in values)
            if is_plain and row.get("page") and row["label"][:1].isupper():
                found[row["page"]].append({"label": row["label"], "years": years, "values": [value if value.startswith("(") else value.strip(")") for value in values],
                                           "unit": unit[1], "block": info["locator"], "page": row["page"], "length": ""})
    return {page: [row | {"is_alone": labels[plain(row["label"])] == 1} for row in rows] for page, rows in found.items()}


def is_amount(cell):
    """Whether the filing tags a cell as an amount of money, with the sign that it prints."""
    return "." not in cell["text"] and any(fact.get("unit") == "USD" and fact["value"].startswith("-") == ("(" in cell["text"]) for fact in cell.get("facts") or [])


def plain(label):
    return re.sub(r"[^a-z]", "", (label or "").lower())


def record_claims(bench, form, store, known):
    reader, results = TableReader(known), []
    with Server(store, env=reader.environment()) as server:
        for name in sorted(known):
            for question in QUESTIONS:
                answer, _ = server.ask(question, scopes=[name], limits=LIMITS)
                for claim in answer["claims"]:
                    names = [figure["name"] for figure in claim.get("figures", [])]
                    made = next((reader.made[name] for name in names if name in reader.made), None)
                    if made:
                        results.append(made | {"shown": claim["state"] in ("verified", "computed"), "reason": claim.get("reason"), "text": claim["text"],
                                               "half": half_of(made["doc"]) or ("A" if made["doc"] < "I" else "B")})
    reader.close()
    right, wrong = [row for row in results if not row["fault"]], [row for row in results if row["fault"]]
    bench.record_halves(f"claims of {form}: right ones shown as verified", right, lambda row: row["shown"], mark=">= .95" if form == "PDF" else None)
    for kind in sorted({row["kind"] for row in right}):
        own = [row["shown"] for row in right if row["kind"] == kind]
        bench.record(f"claims of {form}: right ones shown as verified, {kind}", mean(own), n=len(own))
    for fault in FAULTS:
        own = [row["shown"] for row in wrong if row["fault"] == fault]
        bench.record(f"claims of {form}: wrong {fault} shown as verified", sum(own), n=len(own), mark="<= 0")
    for row in results:
        if row["shown"] and row["fault"] or row["half"] == "A" and not row["shown"] and not row["fault"]:
            bench.note(f"{row['doc']} p {row['page']} {row['kind']} {row['fault'] or 'right'}: {row['text']} — {row['reason']}")


def left_open(bench):
    sets = {"filings": ("dev/pdf", bench.data("dev/retrieval.jsonl")), "more": ("dev/more", TRUTH / "questions.jsonl"),
            "general": ("dev/general/pdf", bench.data("dev/general/questions.jsonl"))}
    for name, (folder, path) in sets.items():
        store = bench.store(f"open-{name}").ingest("--ocr", "never", bench.data(folder))
        documents = set(map(document_name, store.documents()))
        pages = store.pages(bench.scratch / f"pages-{name}")
        questions = [row for row in questions_of(read_lines(path)) if row["doc_name"] in documents]
        for setting, options in (("default", []), ("one section first", ["--sections", "1"])):
            # Answers are stored: a question asked again would be answered without a call.
            copy, reader = store.copy(bench.scratch / f"open-{name}-{setting}"), HonestReader(questions)
            rows = [asked(copy, reader, question, options, pages) for question in questions]
            reader.close()
            label = f"{name}, {setting}"
            for measure_name, key, unit in CONTEXT:
                bench.record_halves(f"{label}: {measure_name}", rows, lambda row, key=key: row[key], unit)
            bench.record_halves(f"{label}: answered", rows, lambda row: row["answered"])
            still = [row for row in rows if row["open"]]
            bench.record_halves(f"{label}: answered of those the first call left open", still, lambda row: row["answered"])
            for half, own in by_half(still).items():
                bench.record(f"{label}: further calls at most, half {half}", max(row["calls"] for row in own), n=len(own), mark=f"<= {MAX_CALLS}")
                bench.record(f"{label}: further tokens at most, half {half}", max(row["tokens"] for row in own), n=len(own), mark=f"<= {MAX_TOKENS}")
            for row in rows:
                if row["half"] == "A" and not row["answered"]:
                    bench.note(f"{row['id']} {row['document']}: {row['question']}")


def asked(store, reader, question, options, pages):
    """How one question went, what its first prompt had, and what was spent after the first call."""
    reader.take()
    answer = store.json("ask", question["question"], "--in", question["doc_name"], *options, expected=(0, 1), env=reader.environment())
    exchanges = reader.take()
    sizes = [len(prompt) + len(reply) for _, prompt, reply in exchanges]
    tokens = answer["usage"]["prompt_tokens"] + answer["usage"]["output_tokens"]
    prompt = exchanges[0][1] if exchanges else ""
    return {"id": question["id"], "document": question["doc_name"], "question": question["question"], "half": half_of(question["doc_name"]),
            "gold": float(shows_gold(question, prompt)), "whole": whole_tables(question, prompt, pages), "first_tokens": round(tokens * sum(sizes[:1]) / max(1, sum(sizes))),
            "evidence": evidence_shown(question, prompt), "open": not shows_gold(question, prompt), "answered": answer["outcome"] == "answered" and not answer.get("missing"),
            "calls": max(0, len(exchanges) - 1), "tokens": round(tokens * sum(sizes[1:]) / max(1, sum(sizes)))}


def whole_tables(question, prompt, pages):
    """The share of tables on gold pages of which all rows are shown, among those that are shown in part at least."""
    whole = []
    for page in question["gold_pages"]:
        found = set(rows_of(text_shown(prompt, question["doc_name"], page)))
        for table in tables_of(pages.get((question["doc_name"], page), "").splitlines()):
            shown = sum(row in found for row in table)
            whole += [shown > .9 * len(table)] if shown else []
    return mean(whole) if whole else None


def tables_of(lines):
    """Runs of rows with few other lines between them."""
    tables, since = [[]], 0
    for line in lines:
        rows = rows_of([line])
        since = 0 if rows else since + 1
        if since > MOST_BETWEEN:
            tables.append([])
        tables[-1] += rows
    return [rows for rows in tables if len(rows) >= TABLE_ROWS]


def evidence_shown(question, prompt):
    """The share of the words that prove the answer that are shown on their page."""
    shares = []
    for evidence in question.get("evidence", []):
        words = {word for word in evidence["text"].split() if len(word) > 3}
        found = set(" ".join(text_shown(prompt, question["doc_name"], evidence["page"])).split())
        shares.append(len(words & found) / max(1, len(words)))
    return mean(shares) if shares else None


def load(bench):
    folder, path = bench.data("dev/pdf", "dev/retrieval.jsonl")
    stores = {binary: Store(binary, bench.scratch / f"load-{name}").ingest("--ocr", "never", folder) for name, binary in bench.binaries.items()}
    documents = set(map(document_name, stores[bench.stemma].documents()))
    known = [row for row in questions_of(read_lines(path)) if row["doc_name"] in documents]
    # Another wording is another question, which no stored answer serves.
    questions = [row | {"question": f"{row['question']} ({at})"} for at in range(bench.options.at_once) for row in [known[at % len(known)]]]
    rounds = 0

    def run(binary):
        nonlocal rounds
        rounds += 1
        reader = HonestReader([row | {"question": row["question"]} for row in questions], LATENCY_MS)
        with Server(stores[binary].copy(bench.scratch / f"load-{rounds}"), env=reader.environment()) as server:
            server.request("/v1/search?q=assets")
            before, began = server.cpu_s(), time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(len(questions)) as pool:
                answers = list(pool.map(lambda row: server.ask(row["question"], scopes=[row["doc_name"]], limits=LIMITS), questions))
            figures = {("time for all", "s"): time.monotonic() - began, ("CPU per answer", "ms"): (server.cpu_s() - before) * 1e3 / len(questions)}
        reader.close()
        seconds, usage = [seconds for _, seconds in answers], [answer["usage"] for answer, _ in answers]
        return figures | {("median", "s"): percentile(seconds, 50), ("p95", "s"): percentile(seconds, 95),
                          ("calls per answer", ""): mean([row["calls"] for row in usage]), ("prompt tokens per answer", ""): mean([row["prompt_tokens"] for row in usage])}

    figures = bench.in_turn(run, 2)
    for (name, unit), value in figures["new"].items():
        bench.record(f"{len(questions)} at once: {name}", value, unit, n=len(questions), old=figures.get("old", {}).get((name, unit)))


def main(bench):
    for part, run in (("claims", claims), ("open", left_open), ("load", load)):
        if bench.wants(part):
            run(bench)


def add_arguments(parser):
    parser.add_argument("--at-once", type=int, default=100, metavar="N", help="questions of `load` [default: 100]")
