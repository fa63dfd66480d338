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
import shutil
import subprocess
import sys

import bench
from bench import DATA, SCRATCH, STEMMA, Sim, check, finish, stemma

OLD = sys.argv[1]
QUICK = "--quick" in sys.argv[2:]
FOLDERS = ["dev/pdf"] if QUICK else ["dev/pdf", "dev/pdf_blind", "dev/markdown", "dev/more", "dev/general/pdf"]
# Each answer is one process that calls the simulated model; the documents of all issuers are among the first questions.
ANSWERS = 8 if QUICK else 47
BINARIES = {"old": OLD, "new": STEMMA}
# What a run draws at random, reads from the clock or measures; everything else must be the same.
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


def searched(name, store, questions, known):
    path = batch(SCRATCH / "batch.jsonl", questions, known)
    output = run(name, store, "-q", "search", "--batch", path, timeout=3_600).stdout
    # `id` is left out by `stable`, so it is taken as the name.
    return {str(json.loads(line).get("id")): parsed(line) for line in output.splitlines()}


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


def per_document(name, store, labels, *command):
    return {label: parsed(run(name, store, "-q", "--json", *command, label, check=False).stdout) for label in labels}


def load(path):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("pdf_present", True)]


def main():
    for binary in BINARIES.values():
        print(subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip(), binary)
    store = "documents"
    stores = {name: f"{name}-{store}" for name in BINARIES}
    for name in BINARIES:
        run(name, stores[name], "-q", "ingest", *(DATA / folder for folder in FOLDERS))

    def both(make, *arguments):
        return [make(name, stores[name], *arguments) for name in BINARIES]

    compare("trees", *both(exported, "trees", "--format", "pageindex", "--text"))
    compare("page texts", *both(exported, "pages", "--format", "pages"))
    labels = documents("new", stores["new"])
    check(labels == documents("old", stores["old"]), f"the same {len(labels)} documents are listed")
    compare("facts", *both(per_document, labels, "stat"))
    compare("Items", *both(per_document, labels, "items"))
    filings = load(DATA / "dev/retrieval.jsonl")
    compare("diffs to the previous filing", *both(per_document, labels[:8] if QUICK else labels, "diff"))
    compare("answers of a simulated model", *both(answered, filings[:ANSWERS]))

    upgraded = "old-store-read-by-new"
    shutil.copytree(SCRATCH / stores["old"], SCRATCH / upgraded)
    listed = run("new", upgraded, "-q", "ls", check=False)
    if listed.returncode != 0:
        print(f"       {listed.stderr.strip()}")
        check("stemma" in listed.stderr, "the new binary refuses the old store and names a command")
    else:
        compare("trees of the old store, read by the new binary", exported("old", stores["old"], "upgrade", "--format", "pageindex"),
                exported("new", upgraded, "upgrade", "--format", "pageindex"))
        stores["new"] = upgraded
    # Both search one index if they can: equal scores stand in the order of indexing, which differs from run to run.
    questions = {"filings": filings}
    if not QUICK:
        questions["other documents"] = load(DATA / "dev/general/questions.jsonl")
    for subject, asked in questions.items():
        for known in (True, False):
            where = "in the named document" if known else "in all documents"
            compare(f"search about {subject}, {where}", *both(searched, asked, known))
    finish()


main()
