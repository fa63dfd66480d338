"""Splits truths by half of the documents (tests/truth/halves.json).

usage: halves.py TRUTH_FOLDER OUTPUT_FOLDER NAME...
Writes OUTPUT_FOLDER/NAME-A.json and NAME-B.json for each TRUTH_FOLDER/NAME.json.
"""

import json
import pathlib
import sys


def half_of(name, halves):
    """The half of a document: that of its issuer (a prefix of its name), or its own."""
    for kind in ("filings", "general"):
        for half in "AB":
            if any(name.startswith(prefix) for prefix in halves[kind][half]):
                return kind, half
    return None, None


def main():
    truth, output = map(pathlib.Path, sys.argv[1:3])
    halves = json.loads((truth / "halves.json").read_text())
    for name in sys.argv[3:]:
        entries = json.loads((truth / f"{name}.json").read_text())
        for half in "AB":
            own = [entry for entry in entries if half_of(entry["doc"], halves)[1] == half]
            (output / f"{name}-{half}.json").write_text(json.dumps(own))


if __name__ == "__main__":
    main()
