"""Compares the facts of filings with sampled truths.

usage: ixbrl.py FACTS.jsonl TRUTH_FOLDER [--verbose]
FACTS.jsonl is the output of `cargo run -p stemma-xbrl --example facts FILE...`.
"""

import json
import pathlib
import sys
from decimal import Decimal

FIELDS = ("concept", "value", "period", "unit", "sign", "decimals", "scale", "dimensions")


def read_output(path):
    """Facts by file and offset, and the summaries of the files."""
    facts, summaries, current = {}, {}, {}
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        if "file" in row:
            name = pathlib.Path(row["file"]).stem
            facts[name], summaries[name], current = current, row, {}
        else:
            current[row["byte"]] = row
    return facts, summaries


def compare(truth, fact):
    """The fields that differ."""
    if fact is None:
        return ["missing"]
    number = fact["value"]["number"] if isinstance(fact["value"], dict) and "number" in fact["value"] else None
    same = {
        "concept": fact["concept"] == truth["concept"],
        # Truths are floats where they have a fraction.
        "value": number is not None and Decimal(number) == Decimal(repr(truth["value"])),
        "period": fact["period"] == truth["period"],
        "unit": fact["unit"] == truth["unit"],
        "sign": fact["sign"] == truth["sign"],
        "decimals": fact["decimals"] == truth["decimals"],
        "scale": fact["scale"] == int(truth["scale"] or 0),
        "dimensions": dict(fact["dimensions"]) == truth.get("dimensions", {}),
    }
    return [field for field in FIELDS if not same[field]]


def main():
    output, truths = sys.argv[1:3]
    verbose = "--verbose" in sys.argv
    facts, summaries = read_output(output)
    wrong_in_all = 0
    for half in "AB":
        count, wrong, fields = 0, 0, dict.fromkeys(("missing",) + FIELDS, 0)
        files = [path for path in sorted(pathlib.Path(truths).glob("*.jsonl")) if (path.name[0] <= "H") == (half == "A")]
        for path in files:
            for line in path.open(encoding="utf-8"):
                truth = json.loads(line)
                differs = compare(truth, facts[path.stem].get(truth["byte"]))
                count += 1
                wrong += bool(differs)
                for field in differs:
                    fields[field] += 1
                if differs and verbose:
                    print(path.stem, differs, truth, facts[path.stem].get(truth["byte"]))
        wrong_in_all += wrong
        own = [summaries[path.stem] for path in files]
        megabytes = sum(row["bytes"] for row in own) / 1e6
        seconds = sum(row["seconds"] for row in own)
        read = [fact for path in files for fact in facts[path.stem].values()]
        values = sum(fact["value"] != "unreadable" for fact in read)
        stored = sum(row["stored_bytes"] for row in own)
        print(f"half {half}: {len(files)} filings, {count} facts of the truth, right {(count - wrong) / max(count, 1):.4f}")
        print("  differences:", {field: n for field, n in fields.items() if n} or "none")
        print(f"  all facts {len(read)}, with a value {values / max(len(read), 1):.4f}")
        print(f"  {megabytes:.1f} MB in {seconds:.2f} s, {1000 * seconds / megabytes:.1f} ms per MB, stored {stored / 1e6:.2f} MB")
        for row in own:
            for defect in row["defects"]:
                print(f"  {pathlib.Path(row['file']).stem}: {defect}")
    sys.exit(1 if wrong_in_all else 0)


if __name__ == "__main__":
    main()
