"""Measures cost and recall of tree search strategies.

Marks: best_first and beam reach the recall of single with half its prompt tokens on filings over 100 pages; mcts beats
best_first at equal calls under noise (±0.2: in the first section with no less recall; ±0.4: in recall); no walk costs more than its budget, and one that did less says so; the same
question twice costs nothing.
"""
import json
import os
import shutil
import subprocess
import sys

from bench import DATA, SCRATCH, Sim, check, export, finish, ingest, stemma, walk

QUICK = "--quick" in sys.argv[1:]
ONLY = [word.removeprefix("--only=") for word in sys.argv[1:] if word.startswith("--only=")]
STRATEGIES = ["single", "best_first", "beam", "mcts", "auto-with-model"]
LARGE = 100
EQUAL_CALLS = 6
SEEDS = [1] if QUICK else [1, 2, 3, 4, 5]
PLAIN = {"reason__analysis": "false", "reason__knowledge__built_in": "false"}


def base():
    """The store of all runs, ingested without a model."""
    store = SCRATCH / "base"
    if os.environ.get("STORE"):
        shutil.copytree(os.environ["STORE"], store, copy_function=os.link)
    else:
        ingest("base", DATA / "dev/pdf")
    stemma("base", "-q", "search", "assets", "-n", "1", check=False)  # makes the index
    return store


def questions():
    lines = [json.loads(line) for line in open(DATA / "dev/retrieval.jsonl", encoding="utf-8")]
    return [line for line in lines if line["pdf_present"] and line["gold_pages"]]


def own_spans(trees):
    """First and last page of each section's own text, by document and section."""
    spans = {}
    for name, tree in trees.items():
        for node, _ in walk(tree):
            children = node.get("nodes") or []
            end = children[0]["start_index"] if children else node["end_index"]
            spans[name, int(node["node_id"])] = node["start_index"], max(end, node["start_index"])
    return spans


class Run:
    """All questions by one strategy over a fresh copy of the store."""

    def __init__(self, name, strategy, sim=None, words=(), store=None, **settings):
        self.name, self.strategy = name, strategy
        self.store = store or f"run-{name}"
        if not (SCRATCH / self.store).exists():
            shutil.copytree(SCRATCH / "base", SCRATCH / self.store, copy_function=os.link)
        batch = SCRATCH / "batch.jsonl"
        asked = ({"id": q["id"], "query": q["question"], "doc": q["doc_name"]} for q in ASKED)
        batch.write_text("".join(json.dumps(line) + "\n" for line in asked), encoding="utf-8")
        command = ["-q", "search", "--batch", batch, "--strategy", strategy, *words]
        done = stemma(self.store, *command, sim=sim, **settings)
        self.answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(self.answers) == len(ASKED), done.stderr[-2000:]

    def sections(self, answer):
        if answer.get("sections") is None:
            return []
        return [locator.split("#") for locator, _ in answer["sections"]]

    def recall(self, large=None, first=999):
        """The share of gold pages on which one of the first chosen sections has text of its own, over questions."""
        shares = []
        for question, answer in zip(ASKED, self.answers):
            if large is not None and (PAGES[question["doc_name"]] > LARGE) != large:
                continue
            chosen = [SPANS[name, int(section)] for name, section in self.sections(answer)[:first]]
            found = [any(start <= page <= end for start, end in chosen) for page in question["gold_pages"]]
            shares.append(sum(found) / len(found))
        return sum(shares) / max(1, len(shares))

    def spent(self, what, large=None):
        """Mean per question."""
        values = [answer["reasoning"]["spent"][what] for question, answer in zip(ASKED, self.answers)
                  if large is None or (PAGES[question["doc_name"]] > LARGE) == large]
        return sum(values) / max(1, len(values))

    def pages(self):
        """Pages of the chosen sections' own texts, mean per question."""
        counts = [sum(end - start + 1 for start, end in (SPANS[name, int(section)] for name, section in self.sections(answer)))
                  for answer in self.answers]
        return sum(counts) / len(counts)

    def noted(self, *codes):
        """Questions with a note under one of these codes."""
        return sum(any(note["code"] in codes for note in answer["reasoning"]["notes"]) for answer in self.answers)

    def row(self):
        calls = max(answer["reasoning"]["spent"]["calls"] for answer in self.answers)
        print(f"{self.name:<26}{self.spent('calls'):>7.1f}{calls:>5}{self.spent('prompt_tokens'):>9.0f}{self.recall():>8.3f}{self.recall(first=3):>8.3f}"
              f"{self.spent('calls', True):>9.1f}{self.spent('prompt_tokens', True):>9.0f}{self.recall(True):>8.3f}"
              f"{self.pages():>8.1f}{self.noted('fallback.lexical'):>6}", flush=True)
        return self


def heading(text):
    print(f"\n{text}\n{'':<26}{'calls':>7}{'max':>5}{'prompt':>9}{'recall':>8}{'first 3':>8}{'calls>100':>9}{'prompt':>9}{'recall':>8}"
          f"{'pages':>8}{'fell':>6}")


base()
ASKED = questions()
_, trees = export("base")
PAGES = {name: max(node["end_index"] for node, _ in walk(tree)) for name, tree in trees.items()}
SPANS = own_spans(trees)
print(f"{len(ASKED)} questions, {sum(PAGES[q['doc_name']] > LARGE for q in ASKED)} about filings over {LARGE} pages")
knowing = {"known": False, "questions": str(DATA / "dev/retrieval.jsonl")}

def right():
    """What each strategy costs and finds, and the same questions again."""
    heading("A model that is right")
    with Sim(**knowing) as sim:
        runs = {strategy: Run(strategy, strategy, sim, **PLAIN).row() for strategy in STRATEGIES}
        full = Run("auto, all ingredients", "auto-with-model", sim, store="full").row()
        before = sim.report()["calls"]
        again = [Run(strategy, strategy, sim, store=f"run-{strategy}", **PLAIN) for strategy in STRATEGIES]
        again.append(Run("again", "auto-with-model", sim, store="full"))
        check(sim.report()["calls"] == before, f"the same questions twice: {sim.report()['calls'] - before} calls")
        check(all(run.spent("calls") == 0 for run in again), "and none is said to be made")
    single = runs["single"]
    for name in ("best_first", "beam"):
        run = runs[name]
        share = run.spent("prompt_tokens", True) / max(1, single.spent("prompt_tokens", True))
        check(run.recall(True) >= single.recall(True), f"{name}: recall {run.recall(True):.3f}, single {single.recall(True):.3f}")
        check(share <= 0.5, f"{name}: {share:.2f} of the prompt tokens of single")


def noise():
    """mcts against best_first, where scores are not what they ought to be."""
    means = {}
    for noise in (0.2, 0.4):
        heading(f"Scores off by up to {noise}, {EQUAL_CALLS} calls, seeds {SEEDS}")
        for name in ("best_first", "mcts"):
            found = []
            for seed in SEEDS:
                with Sim(noise=noise, seed=seed, **knowing) as sim:
                    # Both use all their calls: best_first does not stop early.
                    equal = {f"reason__{name}__calls": EQUAL_CALLS, "reason__best_first__enough": 999, "reason__best_first__least": 0}
                    run = Run(f"{name} {noise} {seed}", name, sim, **PLAIN, **equal).row()
                    found.append((run.recall(), run.recall(first=1), run.spent("calls"), run.pages()))
            means[name, noise] = [sum(values) / len(values) for values in zip(*found)]
    told = lambda noise: "; ".join(
        f"{name} {recall:.3f}, in the first {first:.3f}, {calls:.1f} calls, {pages:.1f} pages"
        for (name, of), (recall, first, calls, pages) in means.items() if of == noise
    )
    better = means["mcts", 0.2][1] > means["best_first", 0.2][1] and means["mcts", 0.2][0] >= means["best_first", 0.2][0]
    check(better, f"mcts beats best_first under noise of 0.2 in the first section, and loses none: {told(0.2)}")
    check(means["mcts", 0.4][0] > means["best_first", 0.4][0], f"mcts beats best_first under noise of 0.4: {told(0.4)}")


def awry():
    """Lies, faults, orders in texts."""
    # A call that hangs is given up after two seconds, and made again.
    IMPATIENT = PLAIN | {"model__timeout_seconds": 2}
    for title, settings in [("Lies in a third of the answers", {"lies": 0.33}), ("Faults in a third of the replies", {"faults__rate": 0.33}),
                            ("A gullible model", {"gullible": True})]:
        heading(title)
        with Sim(**settings, **knowing) as sim:
            for strategy in STRATEGIES:
                run = Run(f"{strategy} {title[:4]}", strategy, sim, **IMPATIENT).row()
                worst = max(answer["reasoning"]["spent"]["calls"] for answer in run.answers)
                check(worst <= 30 and all(answer["sections"] for answer in run.answers), f"{strategy}: {worst} calls at most, always an answer")


def small():
    """A budget that is used up."""
    heading("A budget of two calls and 6,000 tokens")
    with Sim(**knowing) as sim:
        for strategy in STRATEGIES:
            run = Run(f"{strategy} small", strategy, sim, ["--budget-calls", "2", "--budget-tokens", "6000"], **PLAIN).row()
            held = all(a["reasoning"]["spent"]["calls"] <= 2 for a in run.answers)
            held &= all(a["reasoning"]["spent"]["prompt_tokens"] + a["reasoning"]["spent"]["output_tokens"] <= 6000 for a in run.answers)
            check(held, f"{strategy}: the budget holds; {run.noted('budget.used_up')} of {len(run.answers)} say that it is used up")


def away():
    """No one listens."""
    heading("The model is away")
    away = {"model__name": "oracle", "model__base_url": "http://127.0.0.1:9/v1"}
    del ASKED[3:]  # each waits for someone to listen
    run = Run("beam away", "beam", **PLAIN, **away).row()
    check(run.noted("model.away") == len(ASKED) == run.noted("fallback.lexical"), "every answer says that the model is away, and is there")


for part in (right, noise, awry, small, away):
    if not ONLY or part.__name__ in ONLY:
        part()
finish()
