"""Compares the trees of the same filings from HTML and from PDF: Items, notes, and the pages on which they begin.

  twins.py STEMMA HTML_STORE PDF_STORE DATA

Both files break pages in places of their own, so a place is compared by the number printed on its page where both have one.
Notes are those of the truth (data/html/truth/notes). Exit status 1 where less than the mark of issue 18 agrees.
"""

import json
import pathlib
import re
import subprocess
import sys

STEMMA, HTML, PDF, DATA = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
MARK = 0.98


def stemma(store, *arguments):
    done = subprocess.run([STEMMA, "--store", store, "--json", *arguments], capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout) if done.stdout.strip() else {}


def letters(text):
    return re.sub(r"[^a-z0-9]", "", (text or "").lower())


def sections(nodes):
    """(title, first page) of all sections, in order."""
    for node in nodes:
        yield letters(node["title"]), node["pages"][0]
        yield from sections(node.get("children") or node.get("sections") or [])


def printed(store, name, page):
    """The number printed on a page, or the page itself."""
    pages = stemma(store, "cat", f"{name}#p={page}").get("pages") or [{}]
    label = pages[0].get("label")
    return int(label) if label and label.isdigit() else None


def distance(name, html, pdf):
    labels = printed(HTML, name, html), printed(PDF, name, pdf)
    return abs(labels[0] - labels[1]) if None not in labels else abs(html - pdf)


def note(found, title):
    """The page of a note: of several sections with its title, the first that names a note, else the first."""
    own = [(title_, page) for title_, page in found if letters(title) in title_]
    named = [page for title_, page in own if title_.startswith("note") or title_[:1].isdigit()]
    return next(iter(named), own[0][1] if own else None)


def main():
    counts = {"Items": [0, 0, 0], "notes": [0, 0, 0]}
    for twin in sorted((DATA / "twins").glob("*.pdf")):
        name = twin.stem
        items = [{(item["part"], item["item"]): item for item in stemma(store, "items", name).get("items", [])} for store in (HTML, PDF)]
        trees = [list(sections(stemma(store, "tree", name, "-L", "9").get("sections", []))) for store in (HTML, PDF)]
        for key in sorted(set(items[0]) | set(items[1]), key=str):
            one, two = (own.get(key) for own in items)
            same = bool(one and two and one["status"] == two["status"])
            places = [own["pages"][0] for own in (one, two) if own and own.get("pages")]
            near = same and (len(places) == 0 or len(places) == 2 and distance(name, *places) <= 1)
            tally(counts["Items"], same, near, f"{name} Item {key}: {one and one['status']} {two and two['status']}, pages {places}")
        for known in json.loads((DATA / f"truth/notes/{name}.json").read_text())["notes"]:
            places = [note(found, known["title"]) for found in trees]
            same = None not in places
            near = same and distance(name, *places) <= 1
            tally(counts["notes"], same, near, f"{name} note {known['number']} {known['title']}: pages {places}")
    print(f"{'':<8}{'all':>6}{'same':>8}{'page':>8}  mark {MARK}")
    for what, (every, same, near) in counts.items():
        print(f"{what:<8}{every:>6}{same / max(1, every):>8.3f}{near / max(1, every):>8.3f}")
    sys.exit(1 if any(near < MARK * every for every, _, near in counts.values()) else 0)


def tally(count, same, near, line):
    count[0] += 1
    count[1] += same
    count[2] += near
    if not near:
        print(f"  {line}")


main()
