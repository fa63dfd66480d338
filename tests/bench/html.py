"""Prepares one half of the HTML filings for eval_items.py, and scores the notes to their statements.

usage: html.py A|B DATA_FOLDER SCRATCH_FOLDER
Reads SCRATCH/items/NAME.json and SCRATCH/trees/NAME.json as `stemma --json items` and `stemma --json tree` print them; writes
SCRATCH/items-HALF.jsonl and SCRATCH/truth-HALF/.
"""

import json
import pathlib
import re
import shutil
import sys

# What no reader sees. The truth ends an Item at the next visible byte, `stemma` at its last.
INVISIBLE = re.compile(
    rb"(?:<!--.*?-->|<[^>]*>|\s|&nbsp;|&#160;|&#xa0;|\xc2\xa0|&#8203;|\xe2\x80\x8b)*", re.S | re.I
)
STATUS = {"full": "full", "combined": "combined", "absent": "absent", "cross_index": "crossref"}
# A note starts where the truth has it, give or take the mark before its title.
NOTE_BYTES = 1_500


def letters(text):
    return re.sub(r"[^a-z0-9]", "", text.lower())


def prediction(name, items, raw):
    """The Items of a filing in the form that eval_items.py reads."""
    rows = []
    for item in items:
        row = {
            "item": item["item"],
            "part": item["part"],
            "status": STATUS.get(item["status"], "stub"),
            "unsure": item["boundary_unverifiable"],
        }
        if item.get("bytes"):
            start, end = item["bytes"]
            row.update(start_byte=start, end_byte=INVISIBLE.match(raw, end).end())
        rows.append(row)
    return {"file": f"{name}.htm", "items": rows}


def sections(node, found):
    """All sections of a tree as (title, first byte)."""
    if isinstance(node, dict):
        if node.get("bytes") and node.get("title"):
            place = node["bytes"]
            found.append((node["title"], place["start"] if isinstance(place, dict) else place[0]))
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            sections(child, found)
    return found


def notes_found(notes, found):
    """How many notes are sections with their title that start where they do."""
    right = 0
    for note in notes:
        title = letters(note["title"])[:40]
        near = (letters(text) for text, at in found if abs(at - note["byte"]) <= NOTE_BYTES)
        right += any(title in text for text in near)
    return right


def main():
    half = sys.argv[1]
    data, scratch = map(pathlib.Path, sys.argv[2:4])
    truths = scratch / f"truth-{half}"
    truths.mkdir()
    all_notes = right = 0
    with open(scratch / f"items-{half}.jsonl", "w") as predictions:
        for file in sorted((data / "filings").glob("*.htm")):
            name = file.stem
            if ("A" if name[0] <= "H" else "B") != half:
                continue
            raw = file.read_bytes()
            items = json.loads((scratch / "items" / f"{name}.json").read_text())["items"]
            predictions.write(json.dumps(prediction(name, items, raw)) + "\n")
            shutil.copy(data / "truth" / "items" / f"{name}.json", truths)
            truth = data / "truth" / "notes" / f"{name}.json"
            if truth.exists():
                notes = json.loads(truth.read_text())["notes"]
                tree = json.loads((scratch / "trees" / f"{name}.json").read_text())
                all_notes += len(notes)
                right += notes_found(notes, sections(tree, []))
    print(f"\n== notes, half {half}: title and start of {right} of {all_notes} ({right / max(1, all_notes):.3f})")


if __name__ == "__main__":
    main()
