"""Trees by a perfect oracle and by one that lies, scored against the truth it answers from."""

import json
import re
import subprocess
from collections import Counter

from bench import DATA, SCRATCH, TOOLS, TRUTHS, Sim, by_stage, check, export, finish, ingest

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


def mean(rows, name):
    values = [row[name] for row in rows.values() if row[name] is not None]
    return sum(values) / max(1, len(values))


def run(label, copy, structure, **behavior):
    store = re.sub(r"\W+", "-", f"{label}-{copy}")
    with Sim(TRUTHS[copy], **behavior) as sim:
        done = ingest(store, DATA / "dev" / copy, sim=sim if structure != "layout" else None, structure=structure)
        report = sim.report()
    folder, trees = export(store)
    rows = scores(folder, copy)
    print(f"\n== {copy}, {label}: {done.seconds:.0f} s; {by_stage(report) or 'no model'}")
    print(f"{'document':<48} {'nodes':>5} {'found':>5} locF1 level paren  method")
    for doc, row in rows.items():
        tree = next((tree for name, tree in trees.items() if name.removesuffix(".blind") == doc), {})
        provenance = tree.get("provenance", {})
        level, parent = (row[name] if row[name] is not None else float("nan") for name in ("level", "parent"))
        print(f"{doc[:48]:<48} {row['n_truth']:>5} {row['matched']:>5} {row['locF1']:5.3f} {level:5.2f} {parent:5.2f}"
              f"  {provenance.get('method')} {provenance.get('accuracy')}")
    print(f"{'mean':<48} {'':>11} {mean(rows, 'locF1'):5.3f} {mean(rows, 'level'):5.2f} {mean(rows, 'parent'):5.2f}", flush=True)
    return rows, Counter(tree.get("provenance", {}).get("method") for tree in trees.values()), report


methods, stages = Counter(), Counter()
for copy in TRUTHS:
    rules, _, _ = run("layout", copy, "layout")
    for reads in ("truth", "page"):
        rows, by_method, report = run(f"llm, oracle reads {reads}", copy, "llm", reads=reads)
        methods += by_method
        stages += Counter({stage: sums["calls"] for stage, sums in report["stages"].items()})
        if reads == "truth":
            check(mean(rows, "locF1") >= NEAR, f"{copy}: mean locF1 {mean(rows, 'locF1'):.3f}, wanted {NEAR}")
            for doc, row in rows.items():
                if row["locF1"] < NEAR:
                    print(f"       {doc} {row['locF1']:.3f}: missed {row['misses'][:4]}, elsewhere {row['wrong_page'][:4]}, "
                          f"extra {row['extras'][:4]}")
    rows, _, _ = run("llm, 20 % lies", copy, "llm", lies=0.2)
    lied, alone = mean(rows, "locF1"), mean(rules, "locF1")
    check(lied >= alone, f"{copy}: with 20 % lies {lied:.3f}, by rules alone {alone:.3f}")
print(f"\nmethods: {dict(methods)}\nquestions: {dict(stages)}")
for stage in ("detect_toc", "read_contents", "read_window", "locate", "verify_title", "repair"):
    check(stages[stage] > 0, f"{stage} was asked")
finish()
