"""Compares the results of two binaries step by step, and counts what differs, by kind.

  tests/bench/run compare --old OLD_STEMMA [--only trees,tables,…] [--documents N] [--questions N] [FOLDER…]

Steps: texts, trees, items, properties, facts, tables, searches, answers (of a simulated model that answers only what it is shown), diffs,
and store: whether the new binary reads the store of the old one, or refuses it and names a command. Each step turns both results into
entries with fields, and counts entries only in one of them and fields that differ; the first examples of each kind are printed. A
step whose commands one of the binaries does not have is `not comparable`. What differs is for people to judge: it is no failure.
"""

import collections
import concurrent.futures
import hashlib
import json
import re
from pathlib import Path

from harness import CommandFailed, Store, UnknownOption, document_name, read_lines, walk
from reader import HonestReader, questions_of

# Drawn at random, read from the clock or measured.
VOLATILE = {"id", "run", "job", "published", "published_at", "created", "created_at", "added", "updated", "seconds", "millis", "took_ms",
            "elapsed_ms", "latency_ms", "at_ms", "version", "version_id", "settings", "flow", "job_id"}
FOLDERS = ["dev/pdf", "html/filings", "dev/markdown"]
PARALLEL = 2


def add_arguments(parser):
    parser.add_argument("folders", nargs="*", help=f"documents [default: {' '.join(FOLDERS)} of the data]")
    parser.add_argument("--documents", type=int, metavar="N", help="only the first N documents of each folder")
    parser.add_argument("--questions", type=int, metavar="N", help="only the first N questions of each set")
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="examples of each kind [default: 3]")


class Side:
    """One of the binaries, with its store."""

    def __init__(self, name, store, scratch):
        self.name, self.store, self.scratch = name, store, scratch
        self.labels = []

    def of_documents(self, make):
        """{document: entries of `make(label)`}, several documents at once."""
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            return dict(zip(map(document_name, self.labels), pool.map(make, self.labels)))

    def json(self, *command):
        """The JSON of a command; of an error its code alone, because its words may be improved."""
        value = self.store.json(*command, expected=None)
        return {"error": value["error"].get("code")} if isinstance(value.get("error"), dict) else value


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def stable(value):
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items() if key not in VOLATILE}
    return [stable(inner) for inner in value] if isinstance(value, list) else value


def numbered(rows):
    """{key: fields} of pairs; equal keys are counted."""
    seen, entries = collections.Counter(), {}
    for key, fields in rows:
        seen[key] += 1
        entries[f"{key} ({seen[key]})" if seen[key] > 1 else key] = fields
    return entries


# ---- steps: {document or question: {entry: {field: value}}} ----


def texts(side):
    pages = side.store.pages(side.scratch / f"texts-{side.name}")
    found = collections.defaultdict(dict)
    for (document, page), text in pages.items():
        found[document][f"page {page}"] = {"text": text}
    return found


def trees(side):
    folder = side.scratch / f"trees-{side.name}"
    try:
        exported = side.store.trees(folder, "--text")
    except UnknownOption:
        exported = side.store.trees(folder)
    found = {}
    for name, tree in exported.items():
        rows = []
        for depth, node in walk(tree["structure"]):
            start, end = node.get("start_index", node.get("line_num")), node.get("end_index")
            fields = {"level": depth, "end": end, "summary": node.get("summary") or node.get("prefix_summary"), "text": digest(node.get("text"))}
            rows.append((f"{node['title']} @{start}", fields))
        about = {"description": tree.get("doc_description"), "method": (tree.get("provenance") or {}).get("method"),
                 "gaps": sorted(gap["code"] for gap in (tree.get("provenance") or {}).get("gaps") or tree.get("gaps") or [])}
        found[name] = numbered(rows) | {"document": about}
    return found


def items(side):
    def of(label):
        value = side.json("items", label)
        rows = [(f"{row.get('part')}.{row['item']}", stable({key: row.get(key) for key in ("status", "title", "pages", "bytes", "lines", "locator")}))
                for row in value.get("items", [])]
        return numbered(rows) | ({"error": value} if "error" in value else {})
    return side.of_documents(of)


def properties(side):
    def of(label):
        value = side.json("stat", label)
        document = value.get("document", value)
        found = {name: {"value": plain_property(one)} for name, one in (document.get("facts") or {}).items()}
        return found | {"doubt": {"value": document.get("doubt")}, "warnings": {"value": stable(document.get("warnings"))}}
    return side.of_documents(of)


def plain_property(value):
    if isinstance(value, list):
        return [plain_property(one) for one in value]
    return {key: value[key] for key in ("value", "as_of", "class", "source") if key in value} if isinstance(value, dict) else value


def facts(side):
    def of(label):
        try:
            value = side.json("facts", label, "--dimensions")
        except UnknownOption:
            value = side.json("facts", label)
        rows = [(f"{row.get('concept')} {json.dumps(row.get('period'))} {json.dumps(row.get('dimensions') or '')}",
                 {key: row.get(key) for key in ("value", "unit", "page", "displayed")}) for row in value.get("facts", [])]
        return numbered(rows)
    return side.of_documents(of)


def tables(side):
    def of(label):
        entries = []
        for info in side.json("tables", label).get("tables", []):
            shown = side.json("table", info["locator"])
            table = shown.get("table") or {}
            pages = info.get("pages") or info.get("lines") or table.get("pages") or ["?"]
            heads = [column.get("head") for column in table.get("columns", [])]
            rows = [(row.get("label") or "", {field: [(cell or {}).get(field) for cell in row.get("cells", [])] for field in ("text", "value")})
                    for row in table.get("rows", [])]
            # The number of rows and columns is left out, so that a table with one row more is the same table.
            first = next((name for name, _ in rows if name), "")
            entries.append((f"p {pages[0]}", first, {"heads": heads, "unit": table.get("unit"), "title": info.get("title") or info.get("caption"), "pages": pages}, rows))
        found = {}
        for name, (heading, rows) in numbered([(f"{page} {first}", (about, rows)) for page, first, about, rows in entries]).items():
            found[f"table {name}"] = heading
            found |= {f"row {name} › {row}": fields for row, fields in numbered(rows).items()}
        return found
    return side.of_documents(of)


def searches(side, questions):
    found = {}
    for known in (True, False):
        asked = [{"id": row["id"], "query": row["question"]} | ({"doc": row["doc_name"]} if known else {}) for row in questions]
        answers = side.store.search_batch(side.scratch, asked)
        for question, answer in zip(questions, answers):
            ranked = [f"{document} p {page}" for document, page in answer.get("ranked_pages") or []]
            found[f"{question['id']} {'in its document' if known else 'in all documents'}"] = {
                "ranking": {"first page": ranked[:1], "first five pages, as a set": sorted(ranked[:5]), "order of the first ten pages": ranked[:10]},
                "words": {"missing terms": answer.get("missing_terms"), "low evidence": answer.get("low_evidence")}}
    return found


def answers(side, questions):
    """Answers are stored, so each run asks a copy of its store."""
    store, reader, found = side.store.copy(side.scratch / f"answers-{side.name}"), HonestReader(questions), {}
    for question in questions:
        reader.take()
        answer = store.json("ask", question["question"], "--in", question["doc_name"], expected=None, env=reader.environment())
        prompts = reader.take()
        about = {"outcome": answer.get("outcome", (answer.get("error") or {}).get("code")), "mode": answer.get("mode"), "calls": len(prompts),
                 "text": answer.get("text"), "degraded": stable(answer.get("degraded"))}
        claims = [(claim["text"], {"verified": claim.get("verified"), "state": claim.get("state") or claim.get("verdict")}) for claim in answer.get("claims", [])]
        citations = [(f"citation of {citation.get('name')} p {citation.get('page')}", {"quote": citation.get("quote"), "verified": citation.get("verified")})
                     for citation in answer.get("citations", [])]
        # Fences of passages are random numbers.
        prompt = {"first prompt": re.sub(r"\[/?[0-9a-f]{4,}\]", "", prompts[0][1])} if prompts else {}
        found[question["id"]] = {"answer": about, "prompt": prompt} | numbered(claims) | numbered(citations)
    reader.close()
    return found


def diffs(side):
    def of(label):
        pairs = side.json("diff", label).get("pairs", [])
        rows = [(" = ".join((pair.get(end) or {}).get("title", "-") for end in ("left", "right")), {"outcome": pair.get("outcome")}) for pair in pairs]
        return numbered(rows)
    return side.of_documents(of)


# ---- counting ----


def kinds_of(old, new):
    """Pairs (kind, example) of two results of a step."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"only in the {'new' if name in new else 'old'} binary", name
            continue
        for entry in sorted(old[name].keys() | new[name].keys()):
            what = entry.split(" ")[0] if entry.split(" ")[0] in ("table", "row", "page", "document", "citation") else "entry"
            if entry not in old[name] or entry not in new[name]:
                yield f"{what} only in the {'new' if entry in new[name] else 'old'}", f"{name}: {entry}"
                continue
            left, right = old[name][entry], new[name][entry]
            for field in sorted(left.keys() | right.keys()):
                if left.get(field) != right.get(field):
                    yield f"{field} differs", f"{name}: {entry}: {brief(left.get(field), right.get(field))}"


def brief(left, right, most=90):
    """Both values from their first difference on."""
    left, right = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in (left, right))
    start = next((at for at, (one, other) in enumerate(zip(left, right)) if one != other), min(len(left), len(right)))
    start = max(0, start - 20)
    return " → ".join(("…" if start else "") + " ".join(text[start:start + most].split()) for text in (left, right))


def report(bench, step, old, new):
    kinds = collections.defaultdict(list)
    for kind, example in kinds_of(old, new):
        kinds[kind].append(example)
    differing = {example.split(":")[0] for examples in kinds.values() for example in examples}
    entries = sum(len(entries) for entries in new.values())
    bench.record(f"{step}: {'questions' if step in ('searches', 'answers') else 'documents'} that differ", len(differing), n=len(old.keys() | new.keys()))
    for kind, examples in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        bench.record(f"{step}: {kind}", len(examples), n=entries)
        for example in examples[:bench.options.examples]:
            print(f"      {example[:230]}", flush=True)


def read_old_store(bench, sides):
    """Whether the new binary reads the old binary's store."""
    copy = sides["old"].store.copy(bench.scratch / "old-store")
    reading = Store(bench.stemma, copy.folder)
    try:
        reading.run("ls")
    except CommandFailed as error:
        print(f"      {error}")
        bench.record("store: the old store is refused with a command to run", int("stemma " in str(error).split(": exit", 1)[-1]), mark=">= 1")
        return
    bench.record("store: the old store is read", 1)
    side = Side("new", reading, bench.scratch / "reading")
    report(bench, "trees of the old store", trees(sides["old"]), trees(side))


def main(bench):
    options = bench.options
    if not options.old:
        raise SystemExit("--old BINARY is missing")
    folders = options.folders or bench.data(*FOLDERS)
    files = [file for folder in folders for file in files_of(folder)[:options.documents]]
    sides = {}
    for name, binary in bench.binaries.items():
        side = Side(name, bench.store(f"store-{name}", binary).ingest(*files), bench.scratch)
        side.labels = side.store.documents()
        sides[name] = side
    both = [label for label in sides["new"].labels if label in set(sides["old"].labels)]
    bench.record("documents that both list", len(both), n=len(files))
    for side in sides.values():
        side.labels = both
    names = set(map(document_name, both))
    questions = [question for question in asked(bench) if question["doc_name"] in names][:options.questions]
    steps = {"texts": texts, "trees": trees, "items": items, "properties": properties, "facts": facts, "tables": tables, "diffs": diffs,
             "searches": lambda side: searches(side, questions), "answers": lambda side: answers(side, questions)}
    for step, make in steps.items():
        if not bench.wants(step):
            continue
        try:
            report(bench, step, make(sides["old"]), make(sides["new"]))
        except CommandFailed as error:
            print(f"{step}: not comparable: {str(error)[:300]}", flush=True)
    if bench.wants("store"):
        read_old_store(bench, sides)


def files_of(folder):
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [path for path in paths if path.suffix.lower() in (".pdf", ".htm", ".html", ".md", ".txt")]


def asked(bench):
    """Questions of the data whose gold pages are known, and those of tests/truth."""
    paths = [bench.data_folder / "dev/retrieval.jsonl"] if bench.data_folder else []
    return [question for path in paths if path.exists() for question in questions_of(read_lines(path))]
