"""What is read from documents, scored against truths: trees, Items, properties, texts, tables, facts and diffs.

Figures are for half A (rules are made on it) and half B (only measured). `stemma eval` of the measured binary scores what it can. Parts:
  trees       sections of filings, releases, agreements, and of copies without their outline (copying bookmarks would score 1)
  generated   sections of generated filings: every kind, every form of contents, two sizes; needs no data
  markdown    sections of Markdown files: every figure should be 1
  items       start and status of Items, of PDF, of HTML and of submissions
  properties  form, registrant, periods and numbers of the cover
  texts       the text of pages, compared with another library
  tables      whether a tagged figure is in the row and under the head that the filing says, in HTML and in PDF copies of the same filings
  facts       values, units and periods of tagged facts of HTML filings
  diffs       partners and outcomes of sections in two filings, labeled by hand (tests/truth/diff)
  model       trees with a simulated model that knows the headings: what it adds, calls and tokens
"""

import json
import re
import subprocess
from collections import Counter

from harness import TRUTH, Sim, Store, document_name, half_of, mean, read_lines

FIGURES = {"recall": "recall", "precision": "precision", "loc_f1": "locF1", "level": "level", "ancestor": "parent", "parent": "parent, strict"}
# An Item starts where the truth says, give or take the mark before its heading.
BYTES_BEFORE, BYTES_AFTER = 400, 200
STATUS = {"full": "full", "combined": "combined", "absent": "absent", "cross_index": "crossref"}


STORES = {}


def ingested(bench, name, *folders):
    """A store of documents, made once. Text recognition takes minutes, and other machines have none."""
    if name not in STORES:
        STORES[name] = bench.store(name.replace("/", "-")).ingest("--ocr", "never", *folders)
    return STORES[name]


def evaluate(store, kind, *gold):
    return store.json("eval", kind, *gold, expected=(0, 1, 3))


def with_half(rows, name="doc"):
    """Rows with the half of their document. Of HTML filings the ticker decides: they are in no list."""
    return [row | {"half": half_of(row[name]) or ("A" if row[name] < "I" else "B")} for row in rows]


def record_trees(bench, label, rows):
    for figure, name in FIGURES.items():
        bench.record_halves(f"{label}: {name}", with_half(rows), lambda row, figure=figure: row[figure])


def trees(bench):
    sets = (("PARTs and Items", "pdf", "truth/sec-items"), ("releases and others", "pdf", "truth/manual"), ("agreements", "pdf", "truth/contract"),
            ("outline removed", "pdf_blind", "truth/outline"))
    for label, folder, truth in sets:
        store = ingested(bench, folder, bench.data(f"dev/{folder}"))
        record_trees(bench, label, evaluate(store, "structure", bench.data(f"dev/{truth}"))["documents"])
    labeled = [row for name in ("more", "general/pdf")
               for row in evaluate(ingested(bench, name.split("/")[0], bench.data(f"dev/{name}")), "structure", TRUTH / "headings")["documents"]]
    record_trees(bench, "labeled", labeled)


def generated(bench):
    for pages in (16, 40):
        folder = bench.generated("--count", bench.options.count, "--pages", pages, "--seed", pages * 10, "--pdf-only")
        truth = bench.scratch / f"truth-{pages}"
        truth.mkdir()
        for path in folder.rglob("*.json"):
            path.rename(truth / path.name)
        rows = evaluate(ingested(bench, f"generated-{pages}", folder), "structure", truth)["documents"]
        for figure, name in FIGURES.items():
            bench.record(f"generated, {pages} pages: {name}", mean([row[figure] for row in rows if row[figure] is not None]), n=len(rows))


def markdown(bench):
    rows = evaluate(ingested(bench, "markdown", bench.data("dev/markdown")), "structure", bench.data("dev/markdown_truth"))["documents"]
    for figure in ("recall", "precision", "level", "parent"):
        bench.record(f"Markdown: {figure}", mean([row[figure] for row in rows if row[figure] is not None]), n=len(rows), mark=">= 1")


def gold_by_half(bench, name):
    """{half: file} of a truth of this repository."""
    rows = with_half(json.loads((TRUTH / f"{name}.json").read_text()))
    files = {}
    for half in "AB":
        files[half] = bench.scratch / f"{name}-{half}.json"
        files[half].write_text(json.dumps([{key: value for key, value in row.items() if key != "half"} for row in rows if row["half"] == half]))
    return files


def filings(bench):
    return ingested(bench, "filings", *bench.data("dev/pdf", "dev/more"))


def items(bench):
    starts, targets = gold_by_half(bench, "items"), gold_by_half(bench, "item_targets")
    for half in "AB":
        scored = evaluate(filings(bench), "items", starts[half], targets[half])
        for row in scored["questions"]:
            bench.record(f"Items of PDF: {row['question']}, half {half}", row["score"], n=row["judged"])
        for row in scored["mistakes"] if half == "A" else ():
            bench.note(f"{row['doc']} {row['item']} {row['question']}: {row['found']}, wanted {row['wanted']}")
    for label, folder, truth in (("HTML", "html/filings", "html/truth/items"), ("submissions", "html/containers", "html/truth/items-containers")):
        store, rows = ingested(bench, folder, bench.data(folder)), []
        for path in sorted(bench.data(truth).glob("*.json")):
            gold = json.loads(path.read_text())
            rows += [{"doc": document_name(gold["file"])} | row for row in judged_items(gold, items_of(store, bench.data(f"{folder}/{gold['file']}")))]
        for figure in ("start", "status", "invented"):
            bench.record_halves(f"Items of {label}: {figure}", with_half(rows), lambda row, figure=figure: row.get(figure))


def items_of(store, path):
    found, lines = {}, [0, *(match.end() for match in re.finditer(rb"\n", path.read_bytes()))]
    for row in store.json("items", path.name, expected=None).get("items", []):
        heading = (row.get("boundary") or {}).get("heading") or {}
        if not row.get("bytes") and heading.get("line"):
            row["bytes"] = [lines[heading["line"] - 1]]
        found[row["part"], row["item"]] = row
        found.setdefault((None, row["item"]), row)
    return found


def judged_items(gold, found):
    """For each Item of the truth whether its start and its status are right; for one that is absent whether it is invented."""
    quarterly = gold["form"].startswith("10-Q")
    for item in gold["items"]:
        row = found.get((item["part"] if quarterly else None, item["item"]), {})
        if item["status"] == "absent":
            yield {"invented": bool(row.get("bytes"))}
        elif "starts_with" in item:
            start = (row.get("bytes") or [None])[0]
            is_there = start is not None and item["byte"] - BYTES_BEFORE <= start <= item["byte"] + BYTES_AFTER
            known = row and not item.get("status_unsure") and not row.get("boundary_unverifiable")
            wanted = {item["status"], item.get("combined_is")}
            yield {"start": is_there, "status": STATUS.get(row["status"], "stub") in wanted if known else None}


def properties(bench):
    for half, gold in gold_by_half(bench, "metadata").items():
        scored = evaluate(filings(bench), "metadata", gold)
        for row in scored["facts"]:
            bench.record(f"properties: {row['fact']}, half {half}", row["score"], n=row["judged"])
        bench.record(f"properties: mean, half {half}", scored["mean"], n=scored["documents"])
        for mistake in scored["mistakes"] if half == "A" else ():
            bench.note(json.dumps(mistake))


def texts(bench):
    scored = evaluate(ingested(bench, "pdf", bench.data("dev/pdf")), "text", bench.data("dev/text_reference.jsonl"))
    for figure, value in scored["means"].items():
        bench.record(f"text: {figure}", value, n=scored["pages"])


def plain(text):
    """Letters and digits, without marks of footnotes and what is said of all columns."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\((\w{1,2}|unaudited)\)", "", (text or "").lower()))


def digits(text):
    return re.sub(r"[^0-9.]", "", text).strip(".")


def places_of(store, name):
    """{number: [(row label, column head)]} of all cells of a document's tables."""
    found = {}
    for info in store.json("tables", name, expected=None).get("tables", []):
        table = store.json("table", info["locator"])["table"]
        # What all figures are in is a head of its own in some filings, and the unit of the table here.
        unit = plain(table["unit"])
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row["cells"]):
                # `2.80% - 4.95%` is one cell with two numbers.
                for number in {digits(cell["text"]), *map(digits, re.findall(r"\d[\d,.]*", cell["text"]))} if cell else ():
                    found.setdefault(number, []).append((plain(row["label"]), plain(column["head"]) + " " + unit))
    return found


def contradicts_itself(fact):
    """Whether the truth names heads that the tags of the same fact deny: it counts columns without `rowspan`."""
    header, period = fact["column_header"], fact["period"]
    days = [day for day in (period.get("start"), period.get("instant") or period.get("end")) if day]
    years = {int(day[:4]) - before for day in days for before in (0, 1 if day[5:7] in ("01", "02") else 0)}
    named = {int(year) for year in re.findall(r"\b(20\d\d)\b", header)}
    members, last = json.dumps(fact.get("dimensions") or ""), header.split("|")[-1].strip()
    return bool(named and years and not named & years) or last == "U.S." and "NonUs" in members or last == "Non-U.S." and "country:US" in members


def tables(bench):
    truths = {path.stem: read_lines(path) for path in sorted(bench.data("html/truth/facts").glob("*.jsonl"))}
    twins = {path.stem for path in bench.data("html/twins").glob("*.pdf")}
    for label, folder, names, mark in (("HTML", "filings", truths, ">= .99"), ("PDF copies", "twins", twins, ">= .97")):
        store, rows = ingested(bench, f"html/{folder}", bench.data(f"html/{folder}")), []
        for name in sorted(names):
            known = places_of(store, name)
            for fact in truths[name]:
                own, parts = plain(fact.get("row_label")), [plain(part) for part in (fact.get("column_header") or "").split("|") if plain(part)]
                if not fact.get("in_table") or not own or not parts or not re.search(r"\d", fact["displayed"]) or contradicts_itself(fact):
                    continue
                places = known.get(digits(fact["displayed"]), [])
                right = any((row.endswith(own) or own.endswith(row) and row) and all(part in head for part in parts) for row, head in places)
                rows.append({"doc": name, "right": right})
                if not right and name < "I":
                    bench.note(f"{name} {fact['displayed']} · {fact['row_label']} · {fact['column_header']}: {places[:2]}")
        bench.record_halves(f"tables of {label}: figure in its row and column", with_half(rows), lambda row: row["right"], mark=mark)


def facts(bench):
    store, rows = ingested(bench, "html/filings", bench.data("html/filings")), []
    for path in sorted(bench.data("html/truth/facts").glob("*.jsonl")):
        tagged = Counter()
        for fact in store.json("facts", path.stem, "--dimensions", expected=None).get("facts", []):
            tagged[fact["concept"], number(fact["value"])] += 1
        for fact in read_lines(path):
            rows.append({"doc": path.stem, "right": (fact["concept"], number(fact["value"])) in tagged})
    bench.record_halves("tagged facts: concept and value", with_half(rows), lambda row: row["right"], mark=">= 1")


def number(value):
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)


def diffs(bench):
    """Labels name sections by title and first page. A pair without a label is not counted, unless it has a labeled section."""
    store, counts, outcomes = filings(bench), Counter(), []
    documents = set(map(document_name, store.documents()))
    for path in sorted((TRUTH / "diff").glob("*.json")):
        gold = json.loads(path.read_text(encoding="utf-8"))
        if not {gold["left"], gold["right"]} <= documents:
            continue
        pairs = store.json("diff", gold["left"], gold["right"], "--all", "--sentences", "0")["pairs"]
        places = {side: {place(pair[side]): pair[side]["section_id"] for pair in pairs if pair[side]} for side in ("left", "right")}
        found = {tuple((pair[side] or {}).get("section_id") for side in ("left", "right")): pair["outcome"] for pair in pairs}
        wanted, others, labeled, undecided = {}, {}, (set(), set()), (set(), set())
        for label in gold["pairs"]:
            ids = [places[side].get(tuple(label[side])) if side in label else None for side in ("left", "right")]
            if any(side in label and section is None for side, section in zip(("left", "right"), ids)):
                continue  # today's tree has no such section
            for known, section in zip(undecided if label.get("open") else labeled, ids):
                known.add(section)
            if not label.get("open"):
                wanted[tuple(ids)] = label.get("text") or ("removed" if ids[0] else "added")
                others[ids[0]] = {places["right"].get(tuple(other)) for other in label.get("or", [])}
        undecided[0].discard(None), undecided[1].discard(None)
        for (left, right), outcome in list(found.items()):
            if left and right and right in others.get(left, ()):
                del found[left, right]
                right = next((want for of, want in wanted if of == left), right)
                found[left, right] = outcome
            if left and right and not (left in undecided[0] or right in undecided[1]) and (left in labeled[0] or right in labeled[1]):
                counts["found"] += 1
                counts["right"] += (left, right) in wanted
        counts["wanted"] += sum(bool(left and right and left not in undecided[0] and right not in undecided[1]) for left, right in wanted)
        outcomes += [found.get(pair) == outcome for pair, outcome in wanted.items()]
    f1 = 2 * counts["right"] / max(1, counts["found"] + counts["wanted"])
    bench.record("diffs: partners, F1", f1, n=counts["wanted"], mark=">= .95")
    bench.record("diffs: outcomes", mean(outcomes), n=len(outcomes))


def place(section):
    start = section.get("pages") or section.get("lines")
    return section["title"][:80], start[0]


def model(bench):
    copies = {"pdf": ("sec-items", "manual", "contract"), "pdf_blind": ("outline",)}
    texts_folder = bench.scratch / "oracle-texts"
    subprocess.run([bench.sim, "pages", "--out", texts_folder, bench.data("dev/pdf")], check=True)
    for copy, names in copies.items():
        gold = [bench.data(f"dev/truth/{name}") for name in names]
        for label, method, behavior in (("rules", "layout", {}), ("model", "llm", {}), ("model, auto", "auto", {"reads": "reader"}), ("model, 20 % lies", "llm", {"lies": 0.2})):
            words = [word for path in gold for word in ("--truth", path)]
            with Sim(bench, *words, "--texts", texts_folder, **behavior) as sim:
                env = {"STEMMA_STRUCTURE": method} | (sim.env if method != "layout" else {})
                store = Store(bench.stemma, bench.scratch / f"model-{copy}-{label}", env).ingest("--ocr", "never", bench.data(f"dev/{copy}"))
                spent = sim.report()["all"]
            rows = [row for path in gold for row in evaluate(store, "structure", path)["documents"]]
            for figure in ("recall", "precision", "ancestor"):
                bench.record(f"{copy}, {label}: {FIGURES[figure]}", mean([row[figure] for row in rows if row[figure] is not None]), n=len(rows))
            if method != "layout":
                bench.record(f"{copy}, {label}: calls per page", spent["calls"] / sum(row["pages"] for row in rows), n=spent["calls"])
                bench.record(f"{copy}, {label}: tokens per page", (spent["prompt_tokens"] + spent["output_tokens"]) / sum(row["pages"] for row in rows))


def main(bench):
    runs = (trees, generated, markdown, items, properties, texts, tables, facts, diffs, model)
    if bench.data_folder is None and not bench.options.only:
        runs = (generated,)
    for run in runs:
        if bench.wants(run.__name__):
            run(bench)


def add_arguments(parser):
    parser.add_argument("--count", type=int, default=180, metavar="N", help="generated filings of each size [default: 180]")
