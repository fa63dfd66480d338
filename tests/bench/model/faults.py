"""What spoilt replies, an outage, hanging calls and a provider that is gone do to results, calls and time."""

import json
import sys

from bench import DATA, SCRATCH, Sim, answer, by_stage, check, export, finish, ingest, is_whole, recorded, stemma, summary_of, walk

FILES = ("BESTBUY_2024Q2_10Q", "ULTABEAUTY_2023Q4_EARNINGS", "FOOTLOCKER_2022_8K_dated_2022-08-19", "earthmover", "NETFLIX_2017_10K")
files = [DATA / "dev/pdf" / f"{name}.pdf" for name in FILES]
LONG = 200
LATENCY = dict(latency__median_ms=150, latency__sigma=0.3)


def run(store, settings=None, **behavior):
    record = SCRATCH / f"{store}.jsonl"
    with Sim(record=record, **LATENCY, **behavior) as sim:
        done = answer(store, "ingest", *files, sim=sim, structure="llm", **(settings or {}))
        report = sim.report()
    _, trees = export(store, "--text")
    print(f"\n== {store}: exit {done['exit']}, {done['seconds']} s, {report['calls']} calls ({by_stage(report)}); {report['outcomes']}")
    return done, report, trees, recorded(record)


def results(trees):
    """What a tree says, without what its making cost."""
    kept = {name: {key: value for key, value in tree.items() if key != "provenance"} for name, tree in trees.items()}
    return json.dumps(kept, sort_keys=True)


def sound(label, trees, gaps_allowed):
    """No summary, title or description that is damaged."""
    corrupt, missing, gaps = [], 0, []
    for name, tree in trees.items():
        gaps += [(name, gap["code"], gap["detail"][:90]) for gap in tree["provenance"]["gaps"] if gap["code"].startswith("model.")]
        for node, _ in walk(tree):
            summary = summary_of(node)
            if not node["title"].strip():
                corrupt.append((name, "no title", node["node_id"]))
            if not summary:
                missing += node.get("tokens", 0) > 0
            elif node.get("tokens", 0) >= LONG and not is_whole(summary):  # what is short is summed up by rules
                corrupt.append((name, node["title"][:40], summary[:80]))
    check(not corrupt, f"{label}: {len(corrupt)} damaged summaries or titles")
    for one in corrupt[:5]:
        print("      ", one)
    if gaps_allowed:
        print(f"       {missing} sections without summary, {len(gaps)} gaps")
        check(missing == 0 or gaps, f"{label}: what is missing is a recorded gap")
    else:
        check(missing == 0, f"{label}: {missing} sections without summary")
    for gap in gaps[:6]:
        print("       gap", gap)


ways = sys.argv[1:] or ["malformed", "always", "outage", "hang", "gone"]
clean_done, clean, clean_trees, clean_asked = run("clean")
sound("clean", clean_trees, False)
if "malformed" in ways:
    kinds = ["malformed", "schema", "empty", "truncated"]
    done, report, trees, _ = run("malformed", faults__rate=0.3, faults__kinds=kinds)
    sound("malformed", trees, False)
    check(results(trees) == results(clean_trees), "malformed: the trees are those of a provider without faults")
    print(f"       {report['calls'] / clean['calls']:.2f} times the calls")
if "always" in ways:
    done, report, trees, _ = run("always", faults__always=0.05, faults__kinds=["malformed", "empty", "schema"])
    sound("always", trees, True)
    bad = [ask["digest"] for ask in recorded(SCRATCH / "always.jsonl") if ask["outcome"] in ("malformed", "empty", "schema")]
    most = max((bad.count(digest) for digest in set(bad)), default=0)
    print(f"       a question that is always spoilt was asked {most} times at most")
if "outage" in ways:
    done, report, trees, _ = run("outage", outage__after_s=4, outage__lasts_s=15)
    check(results(trees) == results(clean_trees), "outage of 15 s: the trees are those of a provider without faults")
    check(report["repeated"] == 0, f"outage: {report['repeated']} answered questions asked again")
    check(done["exit"] == 0, "outage: exit 0")
    during = report["outcomes"].get("outage", 0)
    print(f"       {during} calls into the outage, {done['seconds'] - clean_done['seconds']:.0f} s longer")
if "hang" in ways:
    timeout = 5
    done, report, trees, asked = run("hang", {"model__timeout_seconds": timeout}, faults__rate=0.02, faults__kinds=["hang"])
    hung = [ask["took_ms"] / 1_000 for ask in asked if ask["outcome"] == "hang"]
    check(hung and max(hung) <= timeout + 1, f"hang: {len(hung)} calls hung, the longest {max(hung, default=0):.1f} s, timeout {timeout} s")
    check(results(trees) == results(clean_trees), "hang: the trees are those of a provider without faults")
    check(report["repeated"] == 0, f"hang: {report['repeated']} answered questions asked again")
if "gone" in ways:
    patience = 20
    done, report, trees, _ = run("gone", {"model__patience_seconds": patience}, outage__after_s=2)
    lines = [line for line in done["stderr"].splitlines() if line.strip()]
    check(done["exit"] == 1, f"gone: exit {done['exit']}, wanted 1")
    check(len(lines) == 1, f"gone: {len(lines)} lines on stderr: {lines[:3]}")
    check(done["seconds"] <= 2 + patience + 60, f"gone: ended after {done['seconds']} s, patience {patience} s")
    check(len(trees) == len(files), f"gone: {len(trees)} of {len(files)} trees")
    stemma("layout", "-q", "ingest", *files, structure="layout")
    _, rules = export("layout", "--text")
    outline = lambda trees, name: [(node["title"], node["start_index"], depth) for node, depth in walk(trees.get(name, {"structure": []}))]
    for name in rules:
        method = trees.get(name, {}).get("provenance", {}).get("method")
        check(outline(trees, name) == outline(rules, name), f"gone: the structure of {name} ({method}) is that of rules")
    sound("gone", trees, True)
finish()
