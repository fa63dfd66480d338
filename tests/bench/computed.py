"""Measures which claims are shown as verified or computed, and whether a wrong one is.

A simulated reader knows the tables of each page as PyMuPDF reads them: rows, years by the positions of words, units. Of the rows among its
passages it copies figures and computes changes, averages, shares and measures. One claim of five has a fault: a wrong formula, period,
sign, row or scale. Marks: at least .95 of the right claims are shown, and no wrong one.
"""

import collections
import json
import os
import random
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pymupdf

import server
from find_reader import BLOCK, REPLY, Reader, pages_shown
from halves import half_of

STEMMA, SCRATCH = os.environ["STEMMA"], Path(os.environ["SCRATCH"])
DATA = Path(os.environ["DATA"])
HALVES = json.loads((Path(__file__).parent.parent / "truth/halves.json").read_text())
CLAIMS = 10
FAULTS = ("formula", "period", "sign", "row", "scale")
NUMBER = re.compile(r"^\(?\$?\(?(\d{1,3}(?:,\d{3})+|\d+)\)?$")
YEAR = re.compile(r"^(19|20)\d\d$")
UNIT = re.compile(r"(?:\bin|\() ?(thousand|million|billion)s\b", re.IGNORECASE)
# Over the years of a table whose columns are parts of a year.
LENGTH = re.compile(r"(three|six|nine) months ended( [a-z]+ \d{1,2}(?=,))?", re.IGNORECASE)
# Lines above the years in which it stands.
LENGTH_LINES = 5
# Rows that are no plain amounts of money.
OTHER = re.compile(r"per share|shares|percent|%|rate|number|average|ratio|units|employees|stores|margin|weighted|days|years", re.IGNORECASE)
NEGATIVE = re.compile(r"loss|used|decrease|deficit|benefit|\(", re.IGNORECASE)
REVENUE = re.compile(r"^(total )?(net )?(revenues?|sales)(, net)?$", re.IGNORECASE)
MEASURES = [
    ("gross margin", "(a - b) / a", (REVENUE, re.compile(r"^(total )?cost of (sales|revenues?|goods sold|products sold)$", re.I)), "%"),
    ("operating margin", "a / b", (re.compile(r"^(operating income|income from operations|operating profit)$", re.I), REVENUE), "%"),
    ("net margin", "a / b", (re.compile(r"^net (income|earnings)$", re.I), REVENUE), "%"),
    ("current ratio", "a / b", (re.compile(r"^total current assets$", re.I), re.compile(r"^total current liabilities$", re.I)), ""),
    ("working capital", "a - b", (re.compile(r"^total current assets$", re.I), re.compile(r"^total current liabilities$", re.I)), "$"),
    ("free cash flow", "a - abs(b)", (re.compile(r"^net cash (provided by|from) operating activities$", re.I),
                                      re.compile(r"^(purchases of property, plant,? and equipment|capital expenditures|purchases of property and equipment)$", re.I)), "$"),
]
QUESTIONS = [
    "What were revenue, cost of sales and net income?", "What do the balance sheets say about current assets and liabilities?",
    "What were the cash flows from operating, investing and financing activities?", "What were the results of the segments?",
    "What are the components of inventories, property and debt?", "How did income taxes and interest expense change?",
]


def lines_of(page):
    """Lines of a page, each a list of words (x0, x1, text) from left to right."""
    words = sorted((word[:5] for word in page.get_text("words")), key=lambda word: (word[3], word[0]))
    lines = []
    for x0, _, x1, y1, text in words:
        if lines and abs(lines[-1][0] - y1) < 3:
            lines[-1][1].append((x0, x1, text))
        else:
            lines.append((y1, [(x0, x1, text)]))
    return [sorted(line) for _, line in lines]


def cells_of(line):
    """The label of a row and its numbers (right edge, text), or None for a line that is no row."""
    kept, negative = [], False
    first = next((at for at, word in enumerate(line) if NUMBER.match(word[2]) or word[2] in ("$", "(", "—", "–")), None)
    if not first:
        return None
    for x0, x1, text in line[first:]:
        if NUMBER.match(text):
            digits = NUMBER.match(text).group(1)
            kept.append((x1, f"({digits})" if "(" in text or negative else digits))
            negative = False
        elif text == "(":
            negative = True
        elif text not in ("$", ")"):
            return None
    return " ".join(word[2] for word in line[:first]).rstrip(". "), kept


def bare(label):
    """A label without marks and signs, to tell whether two rows have the same."""
    return re.sub(r"[^a-z ]", "", re.sub(r"\(\w{1,2}\)", "", label.lower())).strip()


def labels_of_several_rows(lines):
    """Labels that stand before different numbers: International sales, and International assets further below."""
    shown = collections.defaultdict(set)
    for row in filter(None, map(cells_of, lines)):
        shown[bare(row[0])].add(tuple(text for _, text in row[1]))
    return {label for label, values in shown.items() if len(values) > 1}


def tables(document):
    """Rows by page: label, years and values, unit. Only rows whose every cell stands under a year of its own are taken."""
    found = collections.defaultdict(list)
    for number, page in enumerate(document, 1):
        years, unit, block, above, length = [], None, 0, [], ""
        lines = lines_of(page)
        several = labels_of_several_rows(lines)
        for line in lines:
            text = " ".join(word[2] for word in line)
            unit = (UNIT.search(text) or [None, unit])[1]
            above = [*above[-LENGTH_LINES:], text]
            heads = [(x0, x1, int(word)) for x0, x1, word in line if YEAR.match(word)]
            if len(heads) >= 2 and not re.search(r"\d,\d{3}", text):
                spread = all(two[0] - one[1] > 12 for one, two in zip(heads, heads[1:]))
                lengths = {match[0].lower() for one in above for match in LENGTH.finditer(one)}
                length = f"the {lengths.pop()} " if len(lengths) == 1 else ""
                length = re.sub(r"(\d) $", r"\1, ", length)
                years, block = (heads if spread and len({head[2] for head in heads}) == len(heads) else []), block + 1
                continue
            if len(text.split()) > 16:
                years = []
            row = cells_of(line) if years and unit and "$" in page.get_text() else None
            if not row or len(row[1]) != len(years) or OTHER.search(row[0]) or not row[0][:1].isupper() or len(row[0]) < 6:
                continue
            if all(head[0] - 45 < x1 < head[1] + 30 for head, (x1, _) in zip(years, row[1])):
                found[number].append({"label": row[0], "years": [head[2] for head in years], "values": [text for _, text in row[1]],
                                      "unit": unit.lower(), "block": block, "page": number, "length": length,
                                      "is_alone": bare(row[0]) not in several})
    return found


def when(row, column):
    """The period of a column: a year, or the part of it that the table says."""
    length = re.sub(r"(?<=ended )[a-z]", lambda letter: letter[0].upper(), row["length"])
    return f"{length}{row['years'][column]}"


def amount(text):
    value = int(text.strip("()").replace(",", ""))
    return -value if text.startswith("(") else value


class TableReader(Reader):
    """Makes claims of the rows among its passages, and remembers which are right."""

    def __init__(self, known):
        self.known, self.made, self.random = known, {}, random.Random(7)
        super().__init__()

    def reply(self, stage, prompt):
        if stage == "choose_tool":
            return {"tool": "answer", "why": "", "query": "", "document": "", "pages": "", "section": "", "item": "", "pattern": ""}
        rows = []
        for found in BLOCK.finditer(prompt):
            if found["name"] == "Passage":
                rows += self.rows_of(found)
        # A label that stands twice may mean either row.
        count = collections.Counter((row["doc"], row["page"], row["label"].lower()) for row in rows)
        rows = [row for row in rows if count[row["doc"], row["page"], row["label"].lower()] == 1]
        claims = []
        with self.lock:
            for _ in range(4 * CLAIMS if rows else 0):
                claim = self.claim(rows)
                if claim and claim["statement"] not in self.made and len(claims) < CLAIMS:
                    claims.append(claim)
                    self.made[claim["statement"]] = claim.pop("truth")
        return REPLY | {"answerable": bool(claims), "claims": claims, "confidence": 0.9, "missing": [],
                        "answer": {"value": "See the claims", "unit": "", "period": "", "criterion": ""}}

    def rows_of(self, found):
        """Known rows of the passage's pages that stand in its text, with their lines."""
        shown = {}
        for line in found["text"].splitlines():
            shown.setdefault(re.sub(r"[^a-z0-9(]", "", line.lower()), line)
        for doc, page in pages_shown(found.group(0)):
            for row in self.known.get(doc, {}).get(page, []):
                key = re.sub(r"[^a-z0-9(]", "", (row["label"] + "".join(row["values"])).lower())
                if key in shown:
                    yield row | {"passage": int(found["number"]), "line": shown[key], "doc": doc}

    def claim(self, rows):
        fault = self.random.choice(FAULTS) if self.random.random() < 0.2 else None
        kind = self.random.choice(("copy", "copy", "growth", "average", "share", "measure"))
        # A claim about one row names it by its label alone, which then has to be that of no other row of the page.
        named = rows if kind in ("share", "measure") else [row for row in rows if row["is_alone"]]
        return getattr(self, kind)(named, fault) if named else None

    def finish(self, kind, fault, right, wrong_possible, statement, rows, computation):
        if fault and not wrong_possible:
            return None
        doc = rows[0]["doc"]
        truth = {"kind": kind, "fault": fault, "doc": doc, "page": rows[0]["page"], "right": right}
        citations = [{"passage": row["passage"], "quote": row["line"]} for row in rows]
        return {"statement": statement, "citations": citations, "computation": computation, "truth": truth}

    def other_row(self, rows, row, at):
        others = [other for other in rows if (other["doc"], other["page"], other["block"]) == (row["doc"], row["page"], row["block"])
                  and abs(amount(other["values"][at])) != abs(amount(row["values"][at]))]
        return self.random.choice(others) if others else None

    def operand(self, name, at, row, column, value=None):
        return {"name": name, "citation": at, "value": value or row["values"][column], "row": row["label"], "period": when(row, column).removeprefix("the ")}

    def copy(self, rows, fault):
        row = self.random.choice(rows)
        at = self.random.randrange(len(row["years"]))
        value, unit, cited = row["values"][at], row["unit"], row
        if amount(value) == 0:
            return None
        right, possible = value, True
        if fault == "period":
            value = row["values"][self.random.choice([other for other in range(len(row["years"])) if other != at])]
            possible = abs(amount(value)) != abs(amount(right))
        elif fault == "sign":
            possible = amount(value) > 0
        elif fault == "row":
            cited = self.other_row(rows, row, at) or row
            value, possible = cited["values"][at], cited is not row
        elif fault == "scale":
            unit = {"thousand": "million", "million": "billion", "billion": "million"}[unit]
        elif fault == "formula":
            return None
        if not fault and amount(value) < 0:
            return None if NEGATIVE.search(row["label"]) else self.copied(row, row, f"-${value.strip('()')}", unit, at, fault, right, possible)
        sign = "-" if fault == "sign" else ""
        return self.copied(row, cited, f"{sign}${value.strip('()')}", unit, at, fault, right, possible)

    def copied(self, row, cited, figure, unit, at, fault, right, possible):
        statement = f"{row['label']} was {figure} {unit} in {when(row, at)}."
        return self.finish("copy", fault, right, possible, statement, [cited], None)

    def growth(self, rows, fault):
        row = self.random.choice(rows)
        order = sorted(range(len(row["years"])), key=lambda at: row["years"][at])
        old, new = order[-2:]
        before, after = amount(row["values"][old]), amount(row["values"][new])
        if before <= 0 or after <= 0 or before == after:
            return None
        right = 100 * (after - before) / before
        wrong, formula = right, "(a - b) / b"
        operands = [self.operand("a", 1, row, new), self.operand("b", 1, row, old)]
        if fault == "formula":
            formula, wrong = self.random.choice((("(a - b) / a", 100 * (after - before) / after), ("a / b", 100 * after / before)))
        elif fault == "period":
            if len(order) < 3:
                return None
            earliest = amount(row["values"][order[-3]])
            if earliest <= 0:
                return None
            operands[1] = self.operand("b", 1, row, order[-3]) | {"period": when(row, old).removeprefix("the ")}
            wrong = 100 * (after - earliest) / earliest
        elif fault == "sign":
            wrong = -right
        elif fault == "row":
            other = self.other_row(rows, row, new)
            if not other or amount(other["values"][new]) <= 0:
                return None
            operands[0] = self.operand("a", 1, row, new, other["values"][new])
            wrong = 100 * (amount(other["values"][new]) - before) / before
        elif fault == "scale":
            wrong = right * 1000
        verb = "grew" if wrong > 0 else "fell"
        result = f"{abs(wrong):.1f}%"
        if fault and (result == f"{abs(right):.1f}%" and (wrong > 0) == (right > 0)):
            return None
        statement = f"{row['label']} {verb} {result} from {when(row, old)} to {when(row, new)}."
        computation = {"formula": formula, "operands": operands, "result": result}
        return self.finish("growth", fault, right, True, statement, [row], computation)

    def average(self, rows, fault):
        row = self.random.choice(rows)
        values = [amount(value) for value in row["values"]]
        years = sorted(row["years"])
        if min(values) <= 0 or years[-1] - years[0] != len(years) - 1:
            return None
        right = sum(values) / len(values)
        names = "abcdefgh"[: len(values)]
        operands = [self.operand(name, 1, row, at) for at, name in enumerate(names)]
        formula, unit, wrong = f"avg({', '.join(names)})", row["unit"], right
        if fault == "formula":
            formula, wrong = "a + b / 2", values[0] + values[1] / 2
            operands = operands[:2]
        elif fault == "scale":
            unit = {"thousand": "million", "million": "billion", "billion": "million"}[unit]
        elif fault in ("period", "row"):
            other = self.other_row(rows, row, 0) if fault == "row" else None
            value = other["values"][0] if other else row["values"][1]
            operands[0]["value"], wrong = value, (sum(values) - values[0] + amount(value)) / len(values)
        elif fault == "sign":
            operands[0]["value"], wrong = f"({row['values'][0]})", (sum(values) - 2 * values[0]) / len(values)
        if fault and fault != "scale" and round(wrong) == round(right):
            return None
        result = f"${wrong:,.0f} {unit}" if wrong >= 0 else f"-${-wrong:,.0f} {unit}"
        span = " and ".join(when(row, row["years"].index(year)) for year in years) if row["length"] else f"{years[0]}-{years[-1]}"
        statement = f"The average of {row['label']} was {result} over {span}."
        return self.finish("average", fault, right, True, statement, [row], {"formula": formula, "operands": operands, "result": result})

    def pair(self, kind, rows, fault, formula, one, two, unit, words):
        """A claim about two rows in one year; `words` make its statement."""
        at = self.random.randrange(len(one["years"]))
        a, b = amount(one["values"][at]), amount(two["values"][at])
        if not a or not b or one["label"] == two["label"] or (one["unit"], one["length"]) != (two["unit"], two["length"]):
            return None
        # Costs that are printed as negative are added, not taken off.
        if formula == "(a - b) / a" and b < 0:
            return None
        forms = {"a / b": lambda a, b: a / b, "b / a": lambda a, b: b / a, "(a - b) / a": lambda a, b: (a - b) / a, "a - b": lambda a, b: a - b,
                 "a - abs(b)": lambda a, b: a - abs(b), "(a - b) / b": lambda a, b: (a - b) / b, "a + b": lambda a, b: a + b,
                 "a - b / a": lambda a, b: a - b / a}
        right, scale = forms[formula](a, b), one["unit"]
        operands = [self.operand("a", 1, one, at), self.operand("b", 2, two, at)]
        wrong = right
        if fault == "formula":
            formula = self.random.choice([form for form in forms if form != formula and "abs" not in form])
            wrong = forms[formula](a, b)
        elif fault == "period":
            other = self.random.choice([other for other in range(len(one["years"])) if other != at])
            operands[0]["value"], wrong = one["values"][other], forms[formula](amount(one["values"][other]), b)
        elif fault == "sign":
            operands[1]["value"] = two["values"][at].strip("()") if b < 0 else f"({two['values'][at]})"
            wrong = forms[formula](a, -b)
        elif fault == "row":
            other = self.other_row(rows, two, at)
            if not other or not amount(other["values"][at]):
                return None
            operands[1] = self.operand("b", 2, other, at) if self.random.random() < 0.5 else operands[1] | {"value": other["values"][at]}
            two, wrong = other, forms[formula](a, amount(other["values"][at]))
        elif fault == "scale":
            wrong, scale = (wrong * 1000, scale) if unit != "$" else (wrong, {"thousand": "million", "million": "billion", "billion": "million"}[scale])
        def written(value, scale):
            if unit == "$":
                return f"{'-' if value < 0 else ''}${abs(value):,.0f} {scale}"
            return f"{100 * value:.1f}%" if unit == "%" else f"{value:.2f}"
        result = written(wrong, scale)
        if abs(wrong) > 1e15 or (fault and result == written(right, one["unit"])):
            return None
        statement = f"{words} was {result} in {when(one, at)}."
        return self.finish(kind, fault, right, True, statement, [one, two], {"formula": formula, "operands": operands, "result": result})

    def share(self, rows, fault):
        two = [row for row in rows if row["label"].lower().startswith("total ") and min(map(amount, row["values"])) > 0]
        if not two:
            return None
        two = self.random.choice(two)
        one = self.other_row(rows, two, 0)
        if not one or min(map(amount, one["values"])) <= 0:
            return None
        return self.pair("share", rows, fault, "a / b", one, two, "%", f"{one['label']} as a percentage of {two['label'].lower()}")

    def measure(self, rows, fault):
        made = []
        for name, formula, (first, second), unit in MEASURES:
            ones, twos = [row for row in rows if first.match(row["label"])], [row for row in rows if second.match(row["label"])]
            pairs = [(one, two) for one in ones for two in twos if (one["doc"], one["page"], one["block"]) == (two["doc"], two["page"], two["block"])]
            made += [(name, formula, one, two, unit) for one, two in pairs]
        if not made:
            return None
        name, formula, one, two, unit = self.random.choice(made)
        return self.pair("measure", rows, fault, formula, one, two, unit, f"The {name}")


def ask(url, question, document):
    body = {"question": question, "scopes": [document], "limits": {"calls": 4, "tokens": 60_000}}
    request = urllib.request.Request(url + "/v1/answers", json.dumps(body).encode(), {"content-type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 503):
                raise SystemExit(error.read().decode()) from error
            time.sleep(0.5)
            continue
        if "outcome" in answer:
            return answer
        request = urllib.request.Request(f"{url}/v1/answers/{answer['id']}")


def report(rows, name):
    right = [row for row in rows if not row["fault"]]
    wrong = [row for row in rows if row["fault"]]
    share = sum(row["shown"] for row in right) / max(1, len(right))
    shown = sum(row["shown"] for row in wrong)
    print(f"{name:<12} right {len(right):>5}, shown {share:.3f}   wrong {len(wrong):>4}, shown {shown}")
    return share, shown


def list_misses(rows):
    """Right claims that are not shown: counts by kind and reason, then each with its place."""
    missed = [row for row in rows if not row["fault"] and not row["shown"]]
    # Figures and labels of single claims do not tell reasons apart.
    cause = lambda row: (row["kind"], re.sub(r'"[^"]*"|[-($]*\d[\d,.)%]*', "…", row["reason"]))
    for (kind, reason), count in collections.Counter(map(cause, missed)).most_common():
        print(f"{count:>4} {kind:<8} {reason}")
    for row in sorted(missed, key=cause):
        print(f"{row['doc']} p {row['page']}: {row['text']}\n    {row['reason']}")


def main():
    files = sorted(path for path in (DATA / "dev/pdf").rglob("*.pdf"))
    known = {path.stem: tables(pymupdf.open(path)) for path in files}
    print(f"{sum(len(rows) for pages in known.values() for rows in pages.values())} rows known in {len(files)} documents")
    reader = TableReader(known)
    process, url = server.start(STEMMA, SCRATCH / "store", reader.environment())
    try:
        results = []
        for path in files:
            for question in QUESTIONS:
                for claim in ask(url, question, path.stem)["claims"]:
                    made = reader.made.get(claim["text"])
                    if made:
                        results.append(made | {"shown": claim["verified"], "reason": claim.get("reason") or str(claim.get("unfounded")), "text": claim["text"]})
    finally:
        process.terminate()
        process.wait()
    half = lambda row: half_of(row["doc"], HALVES)[1]
    for name in ("A", "B"):
        report([row for row in results if half(row) == name], f"half {name}")
    for kind in ("copy", "growth", "average", "share", "measure"):
        report([row for row in results if row["kind"] == kind], kind)
    for fault in FAULTS:
        report([row for row in results if row["fault"] == fault], fault)
    share, shown = report(results, "all")
    if "--misses" in sys.argv[1:]:
        list_misses([row for row in results if half(row) == "A"])
    with open(os.environ.get("RESULTS", SCRATCH / "results.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in results)
    sys.exit(0 if share >= 0.95 and shown == 0 else 1)


if __name__ == "__main__":
    main()
