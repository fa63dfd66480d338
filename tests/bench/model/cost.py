"""What the model path costs in `auto`: calls, tokens, coverage of the text, sections per call."""

import re
import sys
from collections import Counter, defaultdict

from bench import DATA, SCRATCH, Sim, answer, by_stage, check, export, finish, ingest, pages, recorded, walk

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
    sections under 99 %. A prompt counts by its text, however often it was served."""
    blocks = defaultdict(set)
    texts = {text for ask in asked if ask["stage"] == "summarize" for name, _, text in ask["blocks"] or () if name == "Section"}
    for number, text in enumerate(sorted(texts)):
        for shingle in shingles(text):
            blocks[shingle].add(number)
    once = total = 0
    under = []
    for name, tree in trees.items():
        for node, _ in walk(tree):
            own = shingles(node.get("text", ""))
            if node.get("tokens", 0) < LONG or len(own) < LONG // 2:
                continue
            # A section's own block is the one with most of it; what repeats in others' texts counts once.
            homes = Counter(number for shingle in own for number in blocks.get(shingle, ()))
            home = homes.most_common(1)[0][0] if homes else None
            stretches = {number for number, hits in homes.items() if hits >= 0.05 * len(own)}
            covered = sum(any(number in stretches for number in blocks.get(shingle, ())) for shingle in own)
            twice = [number for number in stretches if number != home and homes[number] > 0.5 * len(own)]
            share = 0 if twice else covered / len(own)
            once, total = once + share * len(own), total + len(own)
            if share < 0.99:
                under.append((round(share, 3), len(own), name, node["title"][:60]))
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
text_tokens = sum(tree["provenance"].get("text_tokens") or 0 for tree in trees.values())
listed = answer("cost", "ls", "--json")
if not text_tokens:
    text_tokens = sum(node.get("tokens", 0) for tree in trees.values() for node, depth in walk(tree) if depth == 1)
everything = report["all"]
print(f"{len(trees)} documents, {count} pages, {text_tokens} tokens of text, {done.seconds:.0f} s (again {again.seconds:.0f} s)")
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
