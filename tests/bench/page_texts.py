"""Compares the page texts of Stemma (JSON lines on standard input) with those of PyMuPDF: page_texts.py FOLDER…

Prints a JSON line per page. Runs in a Python that has PyMuPDF.

A word is missing if PyMuPDF reads it and Stemma does not, also not with other spaces. A number is changed if it is missing
on a page where Stemma has a number that PyMuPDF does not read.
"""

import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from multiprocessing import Pool
from pathlib import Path

import pymupdf

FILLED_OR_STROKED = 16 | 32
# Stemma takes a character for a copy within this distance, in ems. Places are found by cells of so many points.
SAME_PLACE = 0.12
CELL = 2
# A number with its separators, the letters of a word, or one ideograph: the neighbors of those depend on the width of lines.
WORD = re.compile(r"\d(?:[\d.,]*\d)?|[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W\d_]+")
UNREADABLE = "\ufffd"


class Plain(dict):
    """Translation table: invisible characters are dropped, those without a meaning are U+FFFD."""

    def __missing__(self, code):
        char = chr(code)
        kinds = {"Cf": "", "Co": UNREADABLE, "Cn": UNREADABLE, "Cc": " "}
        self[code] = kinds.get(unicodedata.category(char), char)
        return self[code]


PLAIN = Plain()


def plain(text):
    return unicodedata.normalize("NFKC", text).translate(PLAIN)


def words(text):
    out = []
    for token in text.split():
        if UNREADABLE not in token:
            out.extend(WORD.findall(token))
    return out


def open_pages(path):
    """The pages of a document without annotations."""
    with pymupdf.open(path) as document:
        for number in range(document.page_count):
            document.xref_set_key(document.page_xref(number), "Annots", "null")
            yield document[number]


def shown_text(page):
    """The visible text without ornaments and characters drawn twice at one place. Takes long."""
    box = (page.rect * page.derotation_matrix).normalize()
    blocks = page.get_text("rawdict", flags=pymupdf.TEXT_PRESERVE_WHITESPACE)["blocks"]
    lines = [line for block in blocks for line in block.get("lines", [])]
    # Invisible text is the text layer of a scan, unless the page shows text.
    any_visible = any(is_visible(span) and any(char["c"].strip() for char in span["chars"])
                      for line in lines for span in line["spans"])
    places = defaultdict(list)
    return "\n".join("".join(char["c"] for span in line["spans"] if is_text(span) and (is_visible(span) or not any_visible)
                             for char in span["chars"] if is_new(char, span["size"], box, places)) for line in lines)


def is_visible(span):
    return bool(span["char_flags"] & FILLED_OR_STROKED)


def is_text(span):
    return "Dingbats" not in span["font"]


def is_new(char, size, box, places):
    x0, y0, x1, y1 = char["bbox"]
    if not (box.x0 <= (x0 + x1) / 2 <= box.x1 and box.y0 <= (y0 + y1) / 2 <= box.y1):
        return False
    if not char["c"].strip():
        return True
    x, y = char["origin"]
    cell_x, cell_y = int(x // CELL), int(y // CELL)
    reach = SAME_PLACE * size
    steps = range(-int(reach // CELL) - 1, int(reach // CELL) + 2)
    for dx in steps:
        for dy in steps:
            for other_x, other_y in places[char["c"], cell_x + dx, cell_y + dy]:
                if abs(x - other_x) <= reach and abs(y - other_y) <= reach:
                    return False
    places[char["c"], cell_x, cell_y].append((x, y))
    return True


def unmatched(left, right):
    """Words of `left` that `right` has neither as words nor with other spaces."""
    rest = Counter(left) - Counter(right)
    if not rest:
        return []
    others = Counter(right) - Counter(left)
    text = []
    for word in right:
        if others[word] > 0:
            others[word] -= 1
            text.append(word)
    text = "".join(text)
    missing = []
    for word in sorted(rest.elements(), key=len, reverse=True):
        before, found, after = text.partition(word)
        if found:
            text = f"{before}\0{after}"
        else:
            missing.append(word)
    return missing


def order_share(theirs, ours):
    """Longest rising run of the words that occur once on both sides, as a share of them."""
    once = {word for word, count in Counter(theirs).items() if count == 1}
    place = {word: index for index, word in enumerate(theirs) if word in once}
    counts = Counter(ours)
    ranks = [place[word] for word in ours if word in place and counts[word] == 1]
    if not ranks:
        return 1.0
    tails = []
    for rank in ranks:
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            if tails[middle] < rank:
                low = middle + 1
            else:
                high = middle
        tails[low:low + 1] = [rank]
    return len(tails) / len(ranks)


def is_number(word):
    return any(char.isdigit() for char in word)


def pair_numbers(missing, invented):
    return list(zip(filter(is_number, missing), filter(is_number, invented)))


def compare(theirs, ours):
    theirs, ours_plain = plain(theirs), plain(ours)
    left, right = words(theirs), words(ours_plain)
    missing, invented = unmatched(left, right), unmatched(right, left)
    # What is next to a character that cannot be read is shown, but says nothing about a number.
    pieces = [piece for token in ours_plain.split() if UNREADABLE in token for piece in WORD.findall(token)]
    missing = list((Counter(missing) - Counter(pieces)).elements())
    return {"words": len(left), "missing": missing, "invented": invented, "changed": pair_numbers(missing, invented), "order": order_share(left, right)}


def measure(job):
    path, ours = job
    rows = []
    for number, page in enumerate(open_pages(path), 1):
        own = ours.get(number, {"text": ""})
        row = compare(page.get_text(flags=pymupdf.TEXT_PRESERVE_WHITESPACE), own["text"])
        if row["missing"]:
            shown = compare(shown_text(page), own["text"])
            # What only one of the two readings has is a copy, hidden, or a letter that looks like a copy.
            missing = list((Counter(row["missing"]) & Counter(shown["missing"])).elements())
            row = shown | {"missing": missing, "changed": pair_numbers(missing, shown["invented"])}
        rows.append(row | {"doc": path.stem, "page": number})
    return rows


def main():
    ours = defaultdict(dict)
    for entry in map(json.loads, sys.stdin):
        ours[entry["doc"]][entry["page"]] = entry
    paths = [path for folder in sys.argv[1:] for path in sorted(Path(folder).glob("*.pdf"))]
    with Pool(2) as pool:
        for rows in pool.imap(measure, [(path, ours[path.stem]) for path in paths], chunksize=1):
            for row in rows:
                print(json.dumps(row))


if __name__ == "__main__":
    main()
