"""Measures search for tagged figures of HTML filings, by half A (tickers A to H: rules are made on it) and half B.

  html_questions.py STEMMA STORE DATA [--misses]

A section is right if the tag of the figure stands in it and its best pages include that of the tag: a whole Item does not count.
The passages are those of the first prompt of `stemma ask`. Exit status 1 where half B misses a mark of issue 18.
"""

import json
import pathlib
import re
import subprocess
import sys
from os import environ

from find_reader import Reader

STEMMA, STORE, DATA = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
MISSES = "--misses" in sys.argv
MARKS = {"first": 0.80, "in five": 0.95, "value": 0.95}


def stemma(*arguments, env=None):
    done = subprocess.run([STEMMA, "--store", STORE, "-q", "--json", *arguments], capture_output=True, text=True, timeout=300, env=environ | (env or {}))
    return json.loads(done.stdout) if done.stdout.strip() else {}


def extents(nodes, found):
    """{locator: bytes} of all sections."""
    for node in nodes:
        found[node["locator"]] = node.get("bytes")
        extents(node.get("children") or node.get("sections") or [], found)
    return found


def is_right(hit, known, gold):
    span, pages = known.get(hit["locator"]), {page["page"] for page in hit["best_pages"]}
    return bool(span) and any(span[0] <= place["byte"] < span[1] and place["page"] in pages for place in gold)


def main():
    questions = [json.loads(line) for line in (DATA / "questions.jsonl").read_text().splitlines()]
    trees, reader = {}, Reader()
    counts = {half: dict.fromkeys(("all", *MARKS), 0) for half in "AB"}
    for question in questions:
        name = question["file"].removesuffix(".htm")
        half = "A" if name[0] < "I" else "B"
        if name not in trees:
            trees[name] = extents(stemma("tree", name, "-L", "9").get("sections", []), {})
        hits = stemma("search", question["question"], "--in", name, "-n", "5").get("hits", [])
        right = [is_right(hit, trees[name], question["gold"]) for hit in hits]
        reader.take()
        stemma("ask", question["question"], "--in", name, "--mode", "search", env=reader.environment())
        prompts = reader.take()
        number = rf"(?<![\d,.]){re.escape(question['displayed'])}(?![\d]|[,.]\d)"
        values = {"all": True, "first": bool(right and right[0]), "in five": any(right), "value": bool(prompts and re.search(number, prompts[0]))}
        for key, value in values.items():
            counts[half][key] += value
        if MISSES and half == "A" and not all(values.values()):
            print(f"  {question['id']} {name} {[key for key, value in values.items() if not value]}: {question['question']} {question['displayed']}")
    print(f"{'':<8}{'all':>6}" + "".join(f"{key:>9}" for key in MARKS))
    shares = {half: {key: count[key] / max(1, count["all"]) for key in MARKS} for half, count in counts.items()}
    for half, share in shares.items():
        print(f"half {half:<3}{counts[half]['all']:>6}" + "".join(f"{value:>9.3f}" for value in share.values()))
    print(f"{'mark':<14}" + "".join(f"{mark:>9}" for mark in MARKS.values()))
    sys.exit(1 if any(shares["B"][key] < mark for key, mark in MARKS.items()) else 0)


main()
