"""Prints the rows of tables in PDF files as PyMuPDF reads them, as JSON: {document: {page: rows}}. Runs in a Python that has it.

  table_rows.py FILE.pdf…
"""

import collections
import json
import re
import sys
from pathlib import Path

import pymupdf

NUMBER = re.compile(r"^\(?\$?\(?(\d{1,3}(?:,\d{3})+|\d+)\)?$")
YEAR = re.compile(r"^(19|20)\d\d$")
UNIT = re.compile(r"(?:\bin|\() ?(thousand|million|billion)s\b", re.IGNORECASE)
# Over the years of a table whose columns are parts of a year.
LENGTH = re.compile(r"(three|six|nine) months ended( [a-z]+ \d{1,2}(?=,))?", re.IGNORECASE)
# Lines above the years that are searched for it.
LENGTH_LINES = 5
# Rows that are no plain amounts of money.
OTHER = re.compile(r"per share|shares|percent|%|rate|number|average|ratio|units|employees|stores|margin|weighted|days|years", re.IGNORECASE)


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
    """Labels before different numbers: International sales, and International assets further below."""
    shown = collections.defaultdict(set)
    for row in filter(None, map(cells_of, lines)):
        shown[bare(row[0])].add(tuple(text for _, text in row[1]))
    return {label for label, values in shown.items() if len(values) > 1}


def tables(document):
    """Rows by page: label, years and values, unit. Only rows whose every cell is under a year of its own are taken."""
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


if __name__ == "__main__":
    print(json.dumps({Path(path).stem: tables(pymupdf.open(path)) for path in sys.argv[1:]}))
