"""A simulated model that makes claims of table rows among its passages: it copies figures and computes changes, averages, shares and measures.

One claim of five has a fault: a wrong formula, period, sign, row, concept or scale. The rows it knows are read by another program than Stemma.
"""

import collections
import random
import re

from reader import BLOCK, REPLY, Reader, pages_shown

CLAIMS = 10
FAULTS = ("formula", "period", "sign", "row", "concept", "scale")
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
        # A label that is there twice may mean either row.
        count = collections.Counter((row["doc"], row["page"], row["label"].lower()) for row in rows)
        rows = [row for row in rows if count[row["doc"], row["page"], row["label"].lower()] == 1]
        claims, stated = [], set()
        with self.lock:
            for _ in range(4 * CLAIMS if rows else 0):
                claim = self.claim(rows)
                if claim and claim["statement"] not in stated and len(claims) < CLAIMS:
                    stated.add(claim["statement"])
                    claims.append(self.named(claim))
        return REPLY | {"answerable": bool(claims), "claims": claims, "confidence": 0.9, "missing": [],
                        "answer": {"value": "See the claims", "period": "", "criterion": ""}}

    def named(self, claim):
        """The claim with names of figures that no other claim has. The truth is kept under the name of the first."""
        number = len(self.made)
        named = lambda text: re.sub(r"\b([a-hm])\b(?=[^(]|$)", rf"\g<1>{number}", text)
        statement = re.sub(r"\{([a-hm])(\.period)?\}", rf"{{\g<1>{number}\g<2>}}", claim["statement"])
        figures = [figure | {"name": f"{figure['name']}{number}", "formula": named(figure["formula"])} for figure in claim["figures"]]
        self.made[figures[0]["name"]] = claim.pop("truth")
        return claim | {"statement": statement, "figures": figures}

    def rows_of(self, found):
        """Known rows of the passage's pages that are in its text, with their lines."""
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

    def finish(self, kind, fault, right, wrong_possible, statement, rows, figures):
        if fault and not wrong_possible:
            return None
        doc = rows[0]["doc"]
        truth = {"kind": kind, "fault": fault, "doc": doc, "page": rows[0]["page"], "right": right}
        citations = [{"passage": row["passage"], "quote": row["line"]} for row in rows]
        return {"statement": statement, "citations": citations, "figures": figures, "truth": truth}

    def other_row(self, rows, row, at):
        others = [other for other in rows if (other["doc"], other["page"], other["block"]) == (row["doc"], row["page"], row["block"])
                  and at < len(other["values"]) and abs(amount(other["values"][at])) != abs(amount(row["values"][at]))]
        return self.random.choice(others) if others else None

    def figure(self, name, at, row, column, value=None, unit=None):
        return {"name": name, "citation": at, "value": value or row["values"][column], "unit": f"$ {unit or row['unit']}", "row": row["label"],
                "column": when(row, column).removeprefix("the "), "formula": ""}

    def computed(self, formula, value, unit):
        return {"name": "m", "citation": 0, "value": value, "unit": unit, "row": "", "column": "", "formula": formula}

    def copy(self, rows, fault):
        row = self.random.choice(rows)
        at = self.random.randrange(len(row["years"]))
        value, unit, cited, named = row["values"][at], row["unit"], row, row
        if amount(value) == 0:
            return None
        right, possible = value, True
        if fault == "period":
            value = row["values"][self.random.choice([other for other in range(len(row["years"])) if other != at])]
            possible = abs(amount(value)) != abs(amount(right))
        elif fault == "sign":
            possible, value = amount(value) > 0, f"({value})"
        elif fault in ("row", "concept"):
            cited = self.other_row(rows, row, at) or row
            possible = cited is not row
            # A value of another row, or another row than the statement names.
            value, named = cited["values"][at], cited if fault == "concept" else row
        elif fault == "scale":
            unit = {"thousand": "million", "million": "billion", "billion": "million"}[unit]
        elif fault == "formula":
            return None
        figure = self.figure("a", 1, named, at, value, unit)
        return self.finish("copy", fault, right, possible, f"{row['label']} was {{a}} in {{a.period}}.", [cited], [figure])

    def growth(self, rows, fault):
        row = self.random.choice(rows)
        order = sorted(range(len(row["years"])), key=lambda at: row["years"][at])
        old, new = order[-2:]
        before, after = amount(row["values"][old]), amount(row["values"][new])
        if before <= 0 or after <= 0 or before == after:
            return None
        right = 100 * (after - before) / before
        wrong, formula = right, "(a - b) / b * 100"
        operands = [self.figure("a", 1, row, new), self.figure("b", 1, row, old)]
        if fault == "formula":
            formula, wrong = self.random.choice((("(a - b) / a * 100", 100 * (after - before) / after), ("a / b * 100", 100 * after / before)))
        elif fault == "period":
            if len(order) < 3:
                return None
            earliest = amount(row["values"][order[-3]])
            if earliest <= 0:
                return None
            operands[1] = self.figure("b", 1, row, order[-3]) | {"column": when(row, old).removeprefix("the ")}
            wrong = 100 * (after - earliest) / earliest
        elif fault == "sign":
            wrong = -right
        elif fault == "row":
            other = self.other_row(rows, row, new)
            if not other or amount(other["values"][new]) <= 0:
                return None
            operands[0] = self.figure("a", 1, row, new, other["values"][new])
            wrong = 100 * (amount(other["values"][new]) - before) / before
        elif fault == "scale":
            wrong = right * 1000
        verb = "grew" if wrong > 0 else "fell"
        if fault == "concept" or fault and round(wrong, 1) == round(right, 1):
            return None
        statement = f"{row['label']} {verb} by {{m}} from {{b.period}} to {{a.period}}."
        # A verb of falling has the size of the change.
        formula = formula if wrong > 0 else f"abs({formula})"
        return self.finish("growth", fault, right, True, statement, [row], operands + [self.computed(formula, f"{abs(wrong):.1f}", "%")])

    def average(self, rows, fault):
        row = self.random.choice(rows)
        values = [amount(value) for value in row["values"]]
        years = sorted(row["years"])
        if min(values) <= 0 or years[-1] - years[0] != len(years) - 1:
            return None
        right = sum(values) / len(values)
        names = "abcdefgh"[: len(values)]
        operands = [self.figure(name, 1, row, at) for at, name in enumerate(names)]
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
        if fault == "concept" or fault and fault != "scale" and round(wrong) == round(right):
            return None
        periods = ", ".join(f"{{{figure['name']}.period}}" for figure in operands)
        statement = f"The average of {row['label']} was {{m}} over {periods}."
        return self.finish("average", fault, right, True, statement, [row], operands + [self.computed(formula, f"{wrong:,.0f}", f"$ {unit}")])

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
        operands = [self.figure("a", 1, one, at), self.figure("b", 2, two, at)]
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
            operands[1] = self.figure("b", 2, other, at) if self.random.random() < 0.5 else operands[1] | {"value": other["values"][at]}
            two, wrong = other, forms[formula](a, amount(other["values"][at]))
        elif fault == "scale":
            wrong, scale = (wrong * 1000, scale) if unit != "$" else (wrong, {"thousand": "million", "million": "billion", "billion": "million"}[scale])
        def written(value):
            return f"{value:,.0f}" if unit == "$" else f"{100 * value:.1f}" if unit == "%" else f"{value:.2f}"
        if fault == "concept" or abs(wrong) > 1e15 or fault and (written(wrong), scale) == (written(right), one["unit"]):
            return None
        shown = self.computed(f"({formula}) * 100" if unit == "%" else formula, written(wrong), {"$": f"$ {scale}", "%": "%", "": ""}[unit])
        return self.finish(kind, fault, right, True, f"{words} was {{m}} in {{a.period}}.", [one, two], operands + [shown])

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
