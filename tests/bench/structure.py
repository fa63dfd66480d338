"""Means of tests/bench/structure by kind of document, for half A (rules are made on it) and half B (only measured).

usage: structure.py SCORER HALVES KIND=TRUTHS:TREES...
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from halves import half_of

COLUMNS = {"recall": "R", "precision": "P", "locF1": "locF1", "level": "level", "parent": "parent", "parent, strict": "parent_strict"}


def scores(scorer, truths, trees):
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        subprocess.run([sys.executable, scorer, "--truth", truths, "--pred", trees, "--json", output.name],
                       check=True, stdout=subprocess.DEVNULL)
        text = pathlib.Path(output.name).read_text()
    return json.loads(text) if text else []


def mean(rows, column):
    values = [row[column] for row in rows if isinstance(row[column], (int, float))]
    return f"{sum(values) / len(values):.3f}" if values else "-"


def main():
    scorer, halves = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text())
    print(f"{'kind':<30} {'half':<5} {'docs':>4}  " + "  ".join(f"{name:>14}" for name in COLUMNS))
    for argument in sys.argv[3:]:
        label, _, folders = argument.partition("=")
        groups = {}
        for row in scores(scorer, *folders.split(":")):
            kind, half = half_of(row["doc"], halves)
            name = f"{label}, {kind}" if label == "labeled" else label
            groups.setdefault((name, half), []).append(row)
        for (name, half), rows in sorted(groups.items(), key=str):
            cells = "  ".join(f"{mean(rows, column):>14}" for column in COLUMNS.values())
            print(f"{name:<30} {half!s:<5} {len(rows):>4}  {cells}")


if __name__ == "__main__":
    main()
