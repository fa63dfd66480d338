"""Compares the cells of tables with tagged facts: is a figure in the row and under the head that the filing says?

A fact is right if a table has a cell with its digits whose row label is the fact's (or one ends with the other: labels wrap), and whose
column head has the dates and words of the fact's header; it is linked if this is so of the cell in which Stemma finds its tag (HTML
only). Facts without a row label or a header in the truth are not counted, and those whose header denies their own tags are left out.
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


def digits(text):
    return re.sub(r"[^0-9.]", "", text).strip(".")


def cells(store, name):
    """{number: [(row label, column head)]} of all tables of a document, and {byte of a fact: (row label, column head)}."""
    found, linked = {}, {}
    for info in stemma(store, "tables", name).get("tables", []):
        table = stemma(store, "table", info["locator"])["table"]
        # What all figures are in stands in a head of its own in some filings, and is the unit of the table.
        unit = plain(table["unit"])
        for row in table["rows"]:
            for column, cell in zip(table["columns"], row["cells"]):
                if not cell:
                    continue
                place = plain(row["label"]), plain(column["head"]) + " " + unit
                # `2.80% - 4.95%` is one cell with two numbers.
                for number in {digits(cell["text"]), *map(digits, re.findall(r"\d[\d,.]*", cell["text"]))}:
                    found.setdefault(number, []).append(place)
                linked.update({fact["byte"]: place for fact in cell.get("facts", [])})
    return found, linked


def contradicts_itself(fact):
    """Whether the truth names heads that the tags of the same fact deny: it counts columns without `rowspan`."""
    header, period = fact["column_header"], fact["period"]
    days = [day for day in (period.get("start"), period.get("instant") or period.get("end")) if day]
    years = {int(day[:4]) - before for day in days for before in (0, 1 if day[5:7] in ("01", "02") else 0)}
    named = {int(year) for year in re.findall(r"\b(20\d\d)\b", header)}
    members = json.dumps(fact.get("dimensions") or "")
    last = header.split("|")[-1].strip()
    return bool(named and years and not named & years) or last == "U.S." and "NonUs" in members or last == "Non-U.S." and "country:US" in members


def check(store, name, truth, counts):
    missed = []
    known, linked = cells(store, name)
    for fact in truth:
        label, parts = plain(fact.get("row_label")), [plain(part) for part in (fact.get("column_header") or "").split("|")]
        parts = [part for part in parts if part]
        if not fact.get("in_table") or not label or not parts or not re.search(r"\d", fact["displayed"]):
            continue
        if contradicts_itself(fact):
            counts["left out"] += 1
            continue
        places = known.get(digits(fact["displayed"]), [])
        rows = [label == own or label.endswith(own) and own or own.endswith(label) for own, _ in places]
        columns = [all(part in head for part in parts) for _, head in places]
        both = any(row and column for row, column in zip(rows, columns))
        own, head = linked.get(fact["byte"], ("", ""))
        is_linked = own and (label.endswith(own) or own.endswith(label)) and all(part in head for part in parts)
        values = {"facts": True, "found": places, "row": any(rows), "column": any(columns), "both": both, "linked": is_linked}
        for key, value in values.items():
            counts[key] += bool(value)
        if not both or linked and not is_linked:
            missed.append(f"  {name} {fact['displayed']} · {fact['row_label']} · {fact['column_header']}: {places[:2]}, linked {own} · {head}")
    return missed


def main():
    failed = False
    columns = ("found", "row", "column", "both", "linked")
    print(f"{'':<16}{'filings':>8}{'facts':>8}{'left out':>9}" + "".join(f"{column:>8}" for column in columns))
    truths = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in (DATA / "truth/facts").glob("*.jsonl")}
    twins = {path.stem for path in (DATA / "twins").glob("*.pdf")}
    groups = [("HTML, half A", HTML, [name for name in truths if name[0] < "I"], "html"),
              ("HTML, half B", HTML, [name for name in truths if name[0] >= "I"], "html"),
              ("PDF twins", TWINS, [name for name in truths if name in twins], "twins")]
    for layout in ("plain", "narrow", "small"):
        store = pathlib.Path(HTML).parent / f"printed-{layout}"
        if store.is_dir():
            groups.append((f"printed, {layout}", str(store), [name for name in truths if name[0] < "I"], "twins"))
    for label, store, names, kind in groups:
        total = dict.fromkeys(("facts", "left out", *columns), 0)
        for name in sorted(names):
            missed = check(store, name, truths[name], total)
            if MISSES and label == "HTML, half A":
                print("\n".join(missed))
        share = {key: total[key] / max(1, total["facts"]) for key in columns}
        failed |= share["both"] < MARKS[kind]
        print(f"{label:<16}{len(names):>8}{total['facts']:>8}{total['left out']:>9}" + "".join(f"{share[key]:>8.3f}" for key in columns)
              + f"  mark {MARKS[kind]}")
    sys.exit(1 if failed else 0)


main()
