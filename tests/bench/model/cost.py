"""What the model path costs in `auto`: calls, tokens, coverage of the text, sections per call."""

import re
import subprocess
import sys
from collections import Counter, defaultdict

from bench import DATA, SCRATCH, SIM, Sim, by_stage, check, export, finish, ingest, pages, recorded, squash, walk

SHINGLE = 4
LONG = 200
folder = sys.argv[1] if len(sys.argv) > 1 else DATA / "dev/pdf"


def words(text):
    return re.findall(r"\w+", text.lower())


def shingles(text):
    found = words(text)
    return [tuple(found[at:at + SHINGLE]) for at in range(max(0, len(found) - SHINGLE + 1))]


def coverage(trees, asked):
    """Of the words of every long section's own text: the share that was in exactly one prompt for a summary, and the
    sections under 99 %. A prompt counts by its text, however often it was served, and for the section whose text it is:
    the one it is most alike, so that texts that repeat each other are not taken for one."""
    sections = [(name, node, shingles(node.get("text", ""))) for name, tree in trees.items() for node, _ in walk(tree)]
    sizes = [len(set(own)) for _, _, own in sections]
    titles = [squash(node["title"]) for _, node, _ in sections]
    places = defaultdict(set)
    for number, (_, _, own) in enumerate(sections):
        for shingle in own:
            places[shingle].add(number)
    texts = {text for ask in asked if ask["stage"] == "summarize" for name, _, text in ask["blocks"] or () if name == "Section"}
    shown = defaultdict(list)
    for text in texts:
        block = set(shingles(text))
        hits = Counter(number for shingle in block for number in places.get(shingle, ()))
        begin = squash(text[:600])
        alike = {number: count / (len(block) + sizes[number] - count) for number, count in hits.items()}
        best = max(alike.values(), default=0)
        for number, likeness in alike.items():
            # The very same text may be that of several sections; of two that differ in a word the likest is meant.
            if likeness == best and (begin.startswith(titles[number]) or hits[number] == sizes[number]):
                shown[number].append(block)
    once = total = 0
    under = []
    for number, (name, node, own) in enumerate(sections):
        if node.get("tokens", 0) < LONG or len(own) < LONG // 2:
            continue
        read = [[shingle in block for shingle in own] for block in shown[number]]
        covered = sum(any(seen) for seen in zip(*read)) if read else 0
        twice = sum(map(sum, read)) > 1.5 * covered
        share = 0 if twice else covered / len(own)
        once, total = once + share * len(own), total + len(own)
        if share < 0.99:
            under.append((round(share, 3), len(own), name, node["title"][:60], "twice" if twice else ""))
    return once / max(1, total), sorted(under)


record = SCRATCH / "asked.jsonl"
with Sim(record=record, latency__median_ms=300) as sim:
    done = ingest("cost", folder, sim=sim, structure="auto")
    report = sim.report()
    again = ingest("cost", folder, sim=sim, structure="auto")
    calls_again = sim.report()["calls"] - report["calls"]
_, trees = export("cost", "--text")
asked = recorded(record)
page_texts = pages("cost")
count = len(page_texts)
files = [path for path in sorted((SCRATCH / "cost-pages").rglob("*")) if path.is_file()]
text_tokens = int(subprocess.run([SIM, "tokens", *files], check=True, capture_output=True, text=True).stdout)
in_sections = sum(node.get("tokens", 0) for tree in trees.values() for node in tree["structure"])
everything = report["all"]
print(f"{len(trees)} documents, {count} pages, {text_tokens} tokens of text ({in_sections} without running heads), {done.seconds:.0f} s (again {again.seconds:.0f} s)")
print(f"{everything['calls']} calls ({by_stage(report)})")
for stage, sums in report["stages"].items():
    print(f"  {stage:<14} {sums['calls']:>6} calls {sums['prompt_tokens']:>9} prompt tokens {sums['output_tokens']:>8} of replies")
per_page, per_token = everything["calls"] / max(1, count), everything["prompt_tokens"] / max(1, text_tokens)
print(f"{per_page:.3f} calls and {everything['prompt_tokens'] / max(1, count):.0f} prompt tokens per page; busiest: {report['peak_concurrency']} calls at once")
check(per_page <= 0.25, f"{per_page:.3f} calls per page, at most 0.25")
check(per_token <= 1.1, f"{per_token:.3f} prompt tokens per token of text, at most 1.1")
share, under = coverage(trees, asked)
check(share >= 0.99, f"{share:.4f} of the words of sections of {LONG} tokens and more were in exactly one prompt")
check(not under, f"{len(under)} such sections under 99 %")
for line in under[:12]:
    print("      ", line)
check(report["sections"]["most"] <= 8, f"{report['sections']['most']} sections in one call, at most 8; "
      f"{report['sections']['all'] / max(1, report['sections']['calls']):.2f} on average")
check(report["repeated"] == 0, f"{report['repeated']} questions asked again that had been answered")
check(calls_again == 0, f"{calls_again} calls when the same documents are ingested again")
finish()
