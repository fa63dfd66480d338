"""What becomes of questions that one call leaves open, with an honest reader (see tests/bench/further).

  further.py STEMMA FILINGS_STORE MORE_STORE GENERAL_STORE DATA SCRATCH [--only=filings|more|general] [--setting=NAME]

Marks (issue 16): at most 4 further calls and 15,000 further tokens for every question. Exit status 1 where one is missed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from find_reader import HonestReader, shows_gold
from halves import half_of

STEMMA, FILINGS, MORE, GENERAL, DATA, SCRATCH = sys.argv[1:7]
OPTIONS = dict(option.removeprefix("--").split("=", 1) for option in sys.argv[7:])
TRUTH = pathlib.Path(__file__).parent.parent / "truth"
HALVES = json.loads((TRUTH / "halves.json").read_text())
SETTINGS = {"default": [], "one section first": ["--sections", "1"]}
MOST_CALLS, MOST_TOKENS = 4, 15_000


def ask(store, reader, question, options):
    """How one question went: what the first prompt had, who answered it, and what was spent after the first call."""
    reader.take()
    command = [STEMMA, "--store", str(store), "-q", "--json", "ask", question["question"], "--in", question["doc_name"], *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | reader.environment())
    if done.returncode not in (0, 1):
        raise SystemExit(f"{question['id']}: exit {done.returncode}\n{done.stderr[-2_000:]}")
    answer, exchanges = json.loads(done.stdout), reader.take()
    sizes = [len(prompt) + len(reply) for _, prompt, reply in exchanges]
    tokens = answer["usage"]["prompt_tokens"] + answer["usage"]["output_tokens"]
    first = exchanges[0][1] if exchanges else ""
    return {
        "half": half_of(question["doc_name"], HALVES)[1],
        "open": not shows_gold(question, first),
        "answered": answer["outcome"] == "answered" and not answer.get("missing"),
        "mode": answer["mode"],
        "calls": max(0, len(exchanges) - 1),
        "tokens": tokens * sum(sizes[1:]) / max(1, sum(sizes)),
        "first_tokens": tokens * sizes[0] / max(1, sum(sizes)) if sizes else 0,
    }


def questions_in(path):
    """Questions with gold pages whose document is there and has text."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    lines = [line for line in lines if line.get("pdf_present", True) and line.get("text_layer", True)]
    sets = [line.get("gold_sets") or [line["gold_pages"]] for line in lines]
    return [line | {"gold_pages": sorted(set().union(*pages))} for line, pages in zip(lines, sets) if any(pages)]


def mean(values):
    return sum(values) / len(values) if values else 0.0


def report(name, rows):
    """Prints one line per half; whether all questions keep to the marks."""
    for half in "AB":
        own = [row for row in rows if row["half"] == half]
        left = [row for row in own if row["open"]]
        if not own:
            continue
        solved = [row for row in left if row["answered"]]
        by_agent = sum(row["mode"] == "agent" for row in solved)
        print(f"{name + ', half ' + half:<36}{len(own):>5}{len(left):>6}{len(solved) - by_agent:>8}{by_agent:>7}{len(left) - len(solved):>7}"
              f"{mean([row['answered'] for row in own]):>9.2f}{mean([row['calls'] for row in left]):>7.1f}{max([row['calls'] for row in left], default=0):>5}"
              f"{mean([row['tokens'] for row in left]):>9.0f}{max([row['tokens'] for row in left], default=0):>8.0f}"
              f"{mean([row['first_tokens'] for row in own]):>8.0f}", flush=True)
    return all(row["calls"] <= MOST_CALLS and row["tokens"] <= MOST_TOKENS for row in rows)


def main():
    corpora = {"filings": (FILINGS, DATA + "/dev/retrieval.jsonl"), "more": (MORE, TRUTH / "questions.jsonl"), "general": (GENERAL, DATA + "/dev/general/questions.jsonl")}
    print(f"{'':<36}{'n':>5}{'open':>6}{'search':>8}{'agent':>7}{'still':>7}{'all ok':>9}{'calls':>7}{'max':>5}{'tokens':>9}{'max':>8}{'first':>8}")
    kept = True
    for name, (store, path) in corpora.items():
        if name != OPTIONS.get("only", name):
            continue
        questions = questions_in(path)
        for setting, options in SETTINGS.items():
            if setting != OPTIONS.get("setting", setting):
                continue
            # Answers are stored: a question asked again would be answered without a call.
            copy = pathlib.Path(SCRATCH) / f"{name}-{setting.replace(' ', '-')}"
            shutil.copytree(store, copy)
            reader = HonestReader(questions)
            kept &= report(f"{name}, {setting}", [ask(copy, reader, question, options) for question in questions])
            shutil.rmtree(copy)
    print("marks: every question within 4 further calls and 15,000 tokens" if kept else "missed: a question took more than 4 further calls or 15,000 tokens")
    sys.exit(0 if kept else 1)


main()
