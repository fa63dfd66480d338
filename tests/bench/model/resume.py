"""What is asked again: after kill -9, for the same documents, a changed page, other instructions, under a budget."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

from bench import SCRATCH, STEMMA, Sim, answer, by_stage, check, environment, export, finish, ingest, stemma, walk
from paper import BODY, filing, pdf, prose, write

DOCUMENTS, SECTIONS, PAGES = 12, 12, 3
folder = write(SCRATCH / "filings", DOCUMENTS, sections=SECTIONS, pages_each=PAGES)
ways = sys.argv[1:] or ["kill", "page", "prompt", "budget"]


def added(sim, before):
    """Calls per stage since a report."""
    now = sim.report()
    stages = Counter({stage: sums["calls"] for stage, sums in now["stages"].items()})
    stages.subtract({stage: sums["calls"] for stage, sums in before["stages"].items()})
    return {stage: calls for stage, calls in stages.items() if calls}, now["repeated"] - before["repeated"]


def count():
    with Sim(known=False) as sim:
        ingest("count", folder, sim=sim, structure="llm")
        return sim.report()


free = count()
total = free["all"]["prompt_tokens"] + free["all"]["output_tokens"]
print(f"the work: {free['calls']} calls ({by_stage(free)}), {total} tokens")

if "kill" in ways:
    print("\n== kill -9 at half, and again")
    with Sim(known=False, latency__median_ms=150) as sim:
        command = [STEMMA, "--store", str(SCRATCH / "kill"), "-q", "ingest", str(folder)]
        process = subprocess.Popen(command, env=environment(sim, structure="llm"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and sim.report()["calls"] < free["calls"] / 2:
            time.sleep(0.1)
        check(process.poll() is None, "it was working when it was killed")
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1)
        half = sim.report()
        ingest("kill", folder, sim=sim, structure="llm")
        stages, repeated = added(sim, half)
        answered = half["all"]["answered"]
        print(f"       {answered} answered before, {sum(stages.values())} calls after: {stages}")
        check(repeated <= 0.01 * answered, f"{repeated} of {answered} answered questions asked again, at most 1 %")
        before = sim.report()
        ingest("kill", folder, sim=sim, structure="llm")
        stages, _ = added(sim, before)
        check(not stages, f"the same documents again: {sum(stages.values())} calls")
    _, trees = export("kill")
    _, wanted = export("count")
    titles = lambda trees: {name: [(n["title"], n["start_index"], n.get("summary")) for n, _ in walk(tree)] for name, tree in trees.items()}
    check(titles(trees) == titles(wanted), "the trees are those of a run that nothing disturbed")

if "page" in ways:
    print("\n== one page changed")
    own = SCRATCH / "page-filings"
    shutil.copytree(folder, own)
    page = 3 + 5 * PAGES + 1
    changed = lambda lines: lines[:1] + [(line, BODY) for line in prose("other")]
    with Sim(known=False) as sim:
        ingest("page", own, sim=sim, structure="llm")
        before = sim.report()
        (own / "filing-1.pdf").write_bytes(pdf(filing(1, sections=SECTIONS, pages_each=PAGES, edit={page: changed})))
        ingest("page", own, sim=sim, structure="llm")
        stages, repeated = added(sim, before)
    print(f"       asked again: {stages}")
    _, trees = export("page")
    nodes = [(node, depth) for node, depth in walk(trees["filing-1"])]
    readers = [node["title"] for node, _ in nodes if node["start_index"] <= page <= node["end_index"]]
    print(f"       sections on the page, with those above: {readers}")
    check(stages.get("summarize", 0) <= len(readers), f"{stages.get('summarize', 0)} calls for summaries, {len(readers)} sections hold the page")
    check(sum(stages.values()) <= len(readers) + 6, f"{sum(stages.values())} calls in all, of {free['calls'] // DOCUMENTS} for the document")
    check(repeated == 0, f"{repeated} answered questions asked again")

if "prompt" in ways:
    print("\n== other instructions for summaries")
    prompts = SCRATCH / "prompts"
    prompts.mkdir(exist_ok=True)
    (prompts / "summarize.md").write_text("Sum up each of these sections in one sentence.\n")
    with Sim(known=False) as sim:
        ingest("prompt", folder, sim=sim, structure="llm")
        before = sim.report()
        ingest("prompt", folder, sim=sim, structure="llm", prompts=prompts)
        stages, repeated = added(sim, before)
    print(f"       asked again: {stages}")
    check(stages.get("summarize", 0) > 0, "summaries were asked again")
    check(set(stages) <= {"summarize", "describe"}, "nothing but summaries, and descriptions made of them")
    check(repeated == 0, f"{repeated} answered questions asked again")

if "budget" in ways:
    print("\n== a budget")
    third = total // 3
    with Sim(known=False, latency__median_ms=50) as sim:
        done = answer("budget", "ingest", folder, "--budget-tokens", third, sim=sim, structure="llm")
        first = sim.report()
        spent = first["all"]["prompt_tokens"] + first["all"]["output_tokens"]
        print(f"       exit {done['exit']}; {spent} of {third} tokens spent, {first['calls']} calls; {done['stderr'].strip()[-200:]}")
        check(spent <= third, f"{spent} tokens spent, budget {third}")
        check(spent >= 0.5 * third, "at least half of the budget was used")
        check(done["exit"] in (3, 4), f"exit {done['exit']}: stopped, and can go on")
        again = answer("budget", "ingest", folder, "--budget-tokens", third, sim=sim, structure="llm")
        same = sim.report()
        print(f"       with the same budget again: exit {again['exit']}, {same['calls'] - first['calls']} calls more")
        ingest("budget", folder, "--budget-tokens", 2 * total, sim=sim, structure="llm")
        stages, repeated = added(sim, first)
        check(repeated == 0, f"with a larger budget: {stages}, {repeated} answered questions asked again")
    _, trees = export("budget")
    check(len(trees) == DOCUMENTS and all(any(n.get("summary") for n, _ in walk(tree)) for tree in trees.values()), "all documents were finished")
finish()
