"""Scores aligned sections of two documents against labels made by hand.

  align.py STEMMA STORE LABELS_FOLDER [--split tune|held|all] [--verbose]

A label names sections by title and first page: `left` with `right` are one section (`or`: these will do as well); `left`
or `right` alone was removed or added; `open`: undecided, and what has it as a partner is not counted. Sections without a
label are not counted, but a labeled section that is given one of them as its partner is wrong.

Prints precision, recall and F1 of partners, and of outcomes: each labeled section with its class (unchanged, modified,
added, removed), renamed and moved beside it. Exit status 1 where F1 of partners is below .95.
"""
import collections, json, pathlib, subprocess, sys

STEMMA, STORE, LABELS = sys.argv[1:4]
SPLIT = sys.argv[sys.argv.index("--split") + 1] if "--split" in sys.argv else "all"
VERBOSE = "--verbose" in sys.argv
MARK = .95


def diff(left, right):
    command = [STEMMA, "--store", STORE, "--json", "diff", left, right, "--all", "--sentences", "0"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)["pairs"]


def place(section):
    start = section.get("pages") or section.get("lines")
    return [section["title"], start[0]]


class Side:
    """Sections by their ids, and the ids that labels mean."""

    def __init__(self, pairs, side):
        self.sections = {pair[side]["section_id"]: place(pair[side]) for pair in pairs if pair[side]}
        self.lost = []

    def id(self, label):
        title, page = label
        fits = [id for id, (known, at) in self.sections.items() if known[:80] == title and at == page]
        if not fits:
            self.lost.append(label)
        return fits[0] if fits else None


class Count:
    def __init__(self):
        self.right = self.found = self.wanted = 0

    def add(self, other):
        self.right, self.found, self.wanted = self.right + other.right, self.found + other.found, self.wanted + other.wanted

    def line(self):
        precision = self.right / self.found if self.found else 1
        recall = self.right / self.wanted if self.wanted else 1
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
        return precision, recall, f1


def score(labels):
    pairs = diff(labels["left"], labels["right"])
    left, right = Side(pairs, "left"), Side(pairs, "right")
    partner, wanted, classes, open_left, open_right, labeled = {}, set(), {}, set(), set(), (set(), set())
    alternatives = {}
    for label in labels["pairs"]:
        one = left.id(label["left"]) if "left" in label else None
        other = right.id(label["right"]) if "right" in label else None
        if label.get("open"):
            open_left.update([one] if one else []), open_right.update([other] if other else [])
            continue
        if ("left" in label and one is None) or ("right" in label and other is None):
            continue  # the tree of today has no such section
        if one: labeled[0].add(one)
        if other: labeled[1].add(other)
        if one and other:
            wanted.add((one, other))
            alternatives[one] = {right.id(also) for also in label.get("or", [])}
            classes[(one, other)] = label
        else:
            classes[(one, other)] = {"text": "removed" if one else "added"}
    matching, outcome = Count(), Count()
    flags = {"renamed": Count(), "moved": Count()}
    wrong = []
    found = {}
    for pair in pairs:
        one = pair["left"] and pair["left"]["section_id"]
        other = pair["right"] and pair["right"]["section_id"]
        if one in open_left or other in open_right:
            continue
        if one and other:
            also = other in alternatives.get(one, ())
            if also:
                other = next(with_ for (of, with_) in wanted if of == one)
            found[(one, other)] = pair
            if one in labeled[0] or other in labeled[1]:
                matching.found += 1
                if (one, other) in wanted:
                    matching.right += 1
                else:
                    wrong.append(f"  wrong    {left.sections[one]} = {right.sections[other]}")
        else:
            found[(one, other)] = pair
    taken = {pair for pair in found}
    for one, other in wanted:
        if one in open_left or other in open_right:
            continue
        matching.wanted += 1
        if (one, other) not in taken:
            wrong.append(f"  missing  {left.sections[one]} = {right.sections[other]}")
    for (one, other), label in classes.items():
        pair = found.get((one, other))
        outcome.wanted += 1
        outcome.found += 1
        got = pair and pair["outcome"]
        if got == label["text"]:
            outcome.right += 1
        else:
            wrong.append(f"  outcome  {left.sections.get(one)} {right.sections.get(other)}: {label['text']}, not {got}")
        for flag, count in flags.items():
            if pair and one and other and label.get(flag) is not None:
                count.wanted += label[flag]
                count.found += pair[flag]
                count.right += label[flag] and pair[flag]
                if label[flag] != pair[flag]:
                    wrong.append(f"  {flag}  {left.sections[one]} {right.sections[other]}: {label[flag]}, not {pair[flag]}")
    for lost in left.lost + right.lost:
        wrong.append(f"  not in the tree: {lost}")
    return matching, outcome, flags, wrong


total = (Count(), Count(), {"renamed": Count(), "moved": Count()})
print(f"{'':<66}{'pairs':>6}{'P':>7}{'R':>7}{'F1':>7}  outcome")
for path in sorted(pathlib.Path(LABELS).glob("*.json")):
    labels = json.loads(path.read_text(encoding="utf-8"))
    if SPLIT not in ("all", labels.get("split", "tune")):
        continue
    matching, outcome, flags, wrong = score(labels)
    total[0].add(matching), total[1].add(outcome)
    [total[2][flag].add(flags[flag]) for flag in flags]
    p, r, f = matching.line()
    name = f"{labels['left']} {labels['right']}"
    print(f"{name[:65]:<66}{matching.wanted:>6}{p:>7.3f}{r:>7.3f}{f:>7.3f}{outcome.line()[0]:>9.3f}")
    if VERBOSE:
        print("\n".join(wrong))
p, r, f = total[0].line()
print(f"{'all':<66}{total[0].wanted:>6}{p:>7.3f}{r:>7.3f}{f:>7.3f}{total[1].line()[0]:>9.3f} of {total[1].wanted}")
for flag, count in total[2].items():
    print("  %-64s%6d%7.3f%7.3f%7.3f" % ((flag, count.wanted) + count.line()))
sys.exit(0 if f >= MARK else 1)
