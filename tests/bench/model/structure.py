"""Trees by a perfect oracle and by one that lies, scored against the truth it answers from.

`there` is the share of truth's sections that are in the tree on their page (one beside it counts): what the path must not
spoil. locF1 also counts what truth does not list, like the pages before the first section, against the tree."""

import json
import re
import subprocess
from collections import Counter

from bench import DATA, SCRATCH, TOOLS, TRUTHS, Sim, by_stage, check, export, finish, ingest, recorded, squash

NEAR = 0.99


def scores(folder, copy):
    """Documents with what eval_structure.py says about them."""
    rows = []
    for truth in TRUTHS[copy]:
        out = SCRATCH / "scores.json"
        command = ["python3", TOOLS / "eval_structure.py", "--truth", DATA / "dev/truth" / truth, "--pred", folder, "--json", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows += json.loads(out.read_text())
    return {row["doc"]: row for row in rows}


def told(record):
    """Titles that the oracle named when it read contents or windows."""
    named = set()
    for ask in recorded(record):
        if ask["stage"] in ("read_contents", "read_window") and ask["outcome"] == "good":
            said = json.loads(ask["said"])
            named |= {squash(one["number"] + one["title"]) for one in said.get("entries", []) + said.get("sections", [])}
    return named


def mean(rows, name):
    values = [row[name] for row in rows.values() if row[name] is not None]
    return sum(values) / max(1, len(values))


def run(label, copy, structure, **behavior):
    store = re.sub(r"\W+", "-", f"{label}-{copy}")
    record = SCRATCH / f"{store}.jsonl"
    with Sim(TRUTHS[copy], record=record, **behavior) as sim:
        done = ingest(store, DATA / "dev" / copy, sim=sim if structure != "layout" else None, structure=structure)
        report = sim.report()
    folder, trees = export(store)
    rows, named = scores(folder, copy), told(record)
    for row in rows.values():
        row["there"] = row["page_pm1"] * row["matched"] / row["n_truth"] if row["matched"] else 0
        row["lost"] = [title for _, title in row["misses"] if squash(title) in named]
    print(f"\n== {copy}, {label}: {done.seconds:.0f} s; {by_stage(report) or 'no model'}")
    print(f"{'document':<48} {'nodes':>5} {'found':>5} there locF1 level paren  method")
    for doc, row in rows.items():
        tree = next((tree for name, tree in trees.items() if name.removesuffix(".blind") == doc), {})
        provenance = tree.get("provenance", {})
        level, parent = (row[name] if row[name] is not None else float("nan") for name in ("level", "parent"))
        print(f"{doc[:48]:<48} {row['n_truth']:>5} {row['matched']:>5} {row['there']:5.3f} {row['locF1']:5.3f} {level:5.2f} {parent:5.2f}"
              f"  {provenance.get('method')} {(provenance.get('doubt') or {}).get('score')}")
    print(f"{'mean':<48} {'':>11} {mean(rows, 'there'):5.3f} {mean(rows, 'locF1'):5.3f} {mean(rows, 'level'):5.2f} {mean(rows, 'parent'):5.2f}", flush=True)
    return rows, Counter(tree.get("provenance", {}).get("method") for tree in trees.values()), report


methods, stages = Counter(), Counter()
for copy in TRUTHS:
    rules, _, _ = run("layout", copy, "layout")
    for reads in ("truth", "page"):
        rows, by_method, report = run(f"llm, oracle reads {reads}", copy, "llm", reads=reads)
        methods += by_method
        stages += Counter({stage: sums["calls"] for stage, sums in report["stages"].items()})
        if reads == "truth":
            lost = sum(len(row["lost"]) for row in rows.values())
            check(mean(rows, "there") >= NEAR, f"{copy}: {mean(rows, 'there'):.3f} of truth's sections on their pages, wanted {NEAR}")
            check(lost == 0, f"{copy}: {lost} sections that the oracle named are not in the tree")
            for doc, row in rows.items():
                if row["locF1"] < NEAR:
                    print(f"       {doc} {row['locF1']:.3f}: missed {row['misses'][:4]}, of those named {row['lost'][:4]}, "
                          f"elsewhere {row['wrong_page'][:4]}, extra {row['extras'][:4]}")
    rows, _, _ = run("llm, 20 % lies", copy, "llm", lies=0.2)
    lied, alone = mean(rows, "locF1"), mean(rules, "locF1")
    check(lied >= alone, f"{copy}: with 20 % lies {lied:.3f}, by rules alone {alone:.3f}")
print(f"\nmethods: {dict(methods)}\nquestions: {dict(stages)}")
for stage in ("detect_toc", "read_contents", "read_window", "locate", "verify_title", "repair"):
    check(stages[stage] > 0, f"{stage} was asked")
finish()
