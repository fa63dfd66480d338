"""Compares the cells of tables with tagged facts: is a figure in the row and under the head that the filing says?

A fact is right if a table has a cell with its digits whose row label is the fact's (or one ends with the other: labels wrap), and whose
column head has the dates and words of the fact's header. Facts without a row label or a header in the truth are not counted.
"""

import json
import pathlib
import re
import subprocess
import sys

STEMMA, HTML, TWINS, DATA = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
MISSES = "--misses" in sys.argv
MARKS = {"html": 0.99, "twins": 0.97}


def plain(text):
    """Letters and digits, without marks of footnotes and what is said of all columns."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\((\w{1,2}|unaudited)\)", "", (text or "").lower()))


def stemma(store, *arguments):
    done = subprocess.run([STEMMA, "--store", store, "--json", *arguments], capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout) if done.stdout.strip() else {}


def cells(store, name):
    """{digits: [(row label, column head)]} of all tables of a document."""
    found = {}
    for info in stemma(store, "tables", name).get("tables", []):
        table = stemma(store, "table", info["locator"])["table"]
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row["cells"]):
                if cell:
                    digits = re.sub(r"[^0-9.]", "", cell["text"]).strip(".")
                    found.setdefault(digits, []).append((plain(row["label"]), plain(column["head"])))
    return found


def check(store, name, truth):
    counts, missed = {"facts": 0, "found": 0, "row": 0, "column": 0, "both": 0}, []
    known = cells(store, name)
    for fact in truth:
        label, parts = plain(fact.get("row_label")), [plain(part) for part in (fact.get("column_header") or "").split("|")]
        parts = [part for part in parts if part]
        if not fact.get("in_table") or not label or not parts or not re.search(r"\d", fact["displayed"]):
            continue
        places = known.get(re.sub(r"[^0-9.]", "", fact["displayed"]).strip("."), [])
        rows = [label == own or label.endswith(own) and own or own.endswith(label) for own, _ in places]
        columns = [all(part in head for part in parts) for _, head in places]
        both = any(row and column for row, column in zip(rows, columns))
        for key, value in (("facts", True), ("found", bool(places)), ("row", any(rows)), ("column", any(columns)), ("both", both)):
            counts[key] += bool(value)
        if not both:
            missed.append(f"  {name} {fact['displayed']} · {fact['row_label']} · {fact['column_header']}: {places[:2]}")
    return counts, missed


def main():
    failed = False
    print(f"{'':<16}{'filings':>8}{'facts':>8}{'found':>8}{'row':>8}{'column':>8}{'both':>8}")
    truths = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in (DATA / "truth/facts").glob("*.jsonl")}
    twins = {path.stem for path in (DATA / "twins").glob("*.pdf")}
    groups = [("HTML, half A", HTML, [name for name in truths if name[0] < "I"], "html"),
              ("HTML, half B", HTML, [name for name in truths if name[0] >= "I"], "html"),
              ("PDF twins", TWINS, [name for name in truths if name in twins], "twins")]
    for label, store, names, kind in groups:
        total = {"facts": 0, "found": 0, "row": 0, "column": 0, "both": 0}
        for name in sorted(names):
            counts, missed = check(store, name, truths[name])
            total = {key: total[key] + counts[key] for key in total}
            if MISSES and label == "HTML, half A":
                print("\n".join(missed))
        share = {key: total[key] / max(1, total["facts"]) for key in total}
        failed |= share["both"] < MARKS[kind]
        print(f"{label:<16}{len(names):>8}{total['facts']:>8}" + "".join(f"{share[key]:>8.3f}" for key in ("found", "row", "column", "both"))
              + f"  mark {MARKS[kind]}")
    sys.exit(1 if failed else 0)


main()
