"""What a model adds to the structure: trees by rules alone, by a perfect oracle, by a simulated reader that sees what a real
one sees, and by an oracle that lies, scored against the truth. Names of documents as arguments select some."""

import json
import re
import subprocess
import sys

from bench import DATA, SCRATCH, TOOLS, TRUTHS, Sim, answer, check, export, finish, ingest


FIGURES = ("recall", "precision", "locF1", "level", "parent")
# Shares are means of a few documents: one heading more or less is no change.
EQUAL = 0.005
ONLY = sys.argv[1:]


def documents(copy):
    return [path for path in sorted((DATA / "dev" / copy).glob("*.pdf")) if not ONLY or any(name in path.name for name in ONLY)]


def scores(folder, copy):
    """Documents with what eval_structure.py says about them."""
    names, rows = {path.name.removesuffix(".pdf").removesuffix(".blind") for path in documents(copy)}, []
    for truth in TRUTHS[copy]:
        out = SCRATCH / "scores.json"
        command = ["python3", TOOLS / "eval_structure.py", "--truth", DATA / "dev/truth" / truth, "--pred", folder, "--json", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows += json.loads(out.read_text())
    return {row["doc"]: row for row in rows if row["doc"] in names}


def mean(rows, name):
    values = [row[name] for row in rows.values() if row.get(name) is not None]
    return sum(values) / max(1, len(values))


def run(label, copy, structure, **behavior):
    store = re.sub(r"\W+", "-", f"{label}-{copy}")
    with Sim(TRUTHS[copy], record=SCRATCH / f"{store}.jsonl", **behavior) as sim:
        settings = {"sim": sim if structure != "layout" else None, "structure": structure}
        estimate = answer(store, "ingest", "--estimate", *documents(copy), **settings)["estimate"]
        ingest(store, *documents(copy), **settings)
        report = sim.report()
    folder, trees = export(store)
    rows = scores(folder, copy)
    for row in rows.values():
        row["recall"], row["precision"] = row["R"], row["P"]
    figures = {name: mean(rows, name) for name in FIGURES}
    used = report["stages"].get("read_window", {"calls": 0, "prompt_tokens": 0, "output_tokens": 0})
    spent = used["prompt_tokens"] + used["output_tokens"]
    return rows, figures, used["calls"], spent, estimate, report


for copy in TRUTHS:
    if not documents(copy):
        continue
    print(f"\n== {copy}")
    print(f"{'':<24} {' '.join(f'{name:>9}' for name in FIGURES)}  calls   tokens  /text  found per 1,000 tokens")
    base, alone, total = None, {}, 0
    for label, structure, behavior in (
        ("rules", "layout", {}),
        ("oracle", "llm", {}),
        ("simulated reader", "llm", {"reads": "reader"}),
        ("simulated reader, auto", "auto", {"reads": "reader"}),
        ("oracle, 20 % lies", "llm", {"lies": 0.2}),
    ):
        rows, figures, calls, spent, estimate, report = run(label, copy, structure, **behavior)
        total = estimate["text_tokens"]
        found = sum(row["matched"] for row in rows.values())
        base = found if base is None else base
        gain = 1_000 * (found - base) / spent if spent else 0
        print(f"{label:<24} {' '.join(f'{figures[name]:9.3f}' for name in FIGURES)}  {calls:>5} {spent:>8} {spent / total:6.2f}  {gain:.3f}", flush=True)
        if label == "rules":
            alone = figures
            continue
        for name in FIGURES:
            check(figures[name] >= alone[name] - EQUAL, f"{copy}, {label}: {name} {figures[name]:.3f}, by rules {alone[name]:.3f}")
            if copy == "pdf_blind" and name in ("level", "parent"):
                check(figures[name] >= 0.9, f"{copy}, {label}: {name} {figures[name]:.3f}, wanted .90")
        check(spent <= 1.5 * total, f"{copy}, {label}: {spent / total:.2f} x the tokens of the text, at most 1.5")
        everything = report["all"]
        whole = everything["prompt_tokens"] + everything["output_tokens"]
        print(f"  with summaries {whole} tokens, {whole / total:.2f} x the text")
        for name, real in (("calls", everything["calls"]), ("prompt_tokens", everything["prompt_tokens"])):
            about = estimate[name]["about"]
            check(abs(about - real) <= 0.15 * real, f"{copy}, {label}: {name} {real}, estimated {about:.0f}")
finish()
