"""Ranks sections for questions (BM25) by title + summary and by title + first 200 characters of their own text.

The pages of the ranked sections, each counted once, are the answer: only the page a section starts on (`start`) or all of
them (`pages`), of all sections or of leaves, within the document of the question or over all documents.
"""

import argparse
import json
import math
import re
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

STOP_WORDS = set(
    "a an the of in on for to and or is are was were be by with as at from that this it its what which how does did do "
    "has have had if not than then there their our we you your please".split()
)
FIELDS = {
    "first 200": lambda node: f"{node['title']} {' '.join(node['text'].split())[:200]}",
    "summary": lambda node: f"{node['title']} {node['summary']}",
}


def stem(word):
    for ending, new in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if word.endswith(ending) and len(word) > 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + new
            break
    for ending in ("ations", "ation", "ments", "ment", "ing", "ed", "ly", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def terms(text):
    words = re.findall(r"[a-z0-9]+(?:&[a-z]+)?", re.sub("['’]s", "", text.lower()))
    return [stem(word) for word in words if word not in STOP_WORDS]


def sections(folder):
    for path in sorted(folder.rglob("*.json")):
        document = path.name.removesuffix(".json").removesuffix(".pdf")
        stack = json.loads(path.read_text())["structure"][::-1]
        while stack:
            node = stack.pop()
            children = node.get("nodes", [])
            stack.extend(children[::-1])
            summary = node.get("summary") or node.get("prefix_summary") or ""
            span = (node["start_index"], node["end_index"])
            yield dict(document=document, title=node["title"], summary=summary, text=node.get("text", ""),
                       span=span, leaf=not children)


class Index:
    """BM25 with the usual parameters; equal scores in reading order."""

    def __init__(self, texts):
        self.lengths = [len(text) for text in texts]
        self.mean = max(1, sum(self.lengths) / max(1, len(texts)))
        self.postings = defaultdict(list)
        for number, text in enumerate(texts):
            for term, count in Counter(text).items():
                self.postings[term].append((number, count))

    def rank(self, query):
        scores = Counter()
        for term in sorted(set(query)):
            found = self.postings.get(term, [])
            rarity = math.log(1 + (len(self.lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found:
                length = 0.25 + 0.75 * self.lengths[number] / self.mean
                scores[number] += rarity * count * 2.2 / (count + 1.2 * length)
        return sorted(scores, key=lambda number: (-scores[number], number))


def place(ranked, question, expand):
    """Place of the first gold page among the pages of the ranked sections, from 0."""
    seen = set()
    for node in ranked:
        first, last = node["span"]
        for page in range(first, (last if expand == "pages" else first) + 1):
            if node["document"] == question["doc_name"] and page in question["gold_pages"]:
                return len(seen)
            seen.add((node["document"], page))
    return None


def places(nodes, questions, scope, field, expand):
    indexes = {}
    for question in questions:
        key = question["doc_name"] if scope == "document" else None
        if key not in indexes:
            own = [node for node in nodes if key in (None, node["document"])]
            names = [f"{node['document'].replace('_', ' ')} " if key is None else "" for node in own]
            indexes[key] = own, Index([terms(name + FIELDS[field](node)) for name, node in zip(names, own)])
        own, index = indexes[key]
        yield place([own[number] for number in index.rank(terms(question["question"]))], question, expand)


def figures(found):
    shares = [sum(at is not None and at < limit for at in found) / len(found) for limit in (1, 5, 10)]
    return shares + [sum(1 / (at + 1) for at in found if at is not None) / len(found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--trees", type=Path, required=True)
    arguments = parser.parse_args()
    nodes = list(sections(arguments.trees))
    known = {node["document"] for node in nodes}
    questions = [json.loads(line) for line in arguments.questions.read_text().splitlines()]
    questions = [question for question in questions if question["doc_name"] in known]
    longest = max(len(node["summary"].split()) for node in nodes)
    print(f"{len(questions)} questions, {len(nodes)} sections, longest summary {longest} words")
    print(f"{'':24}{'':12}  hit@1   @5  @10   MRR")
    for scope, leaves, expand in product(("document", "all"), ("sections", "leaves"), ("start", "pages")):
        kept = [node for node in nodes if leaves == "sections" or node["leaf"]]
        rows = {field: figures(list(places(kept, questions, scope, field, expand))) for field in FIELDS}
        rows["gain"] = [after - before for before, after in zip(*rows.values())]
        for name, row in rows.items():
            label = f"{scope} {leaves} {expand}" if name == "first 200" else ""
            sign = "+.2f" if name == "gain" else ".2f"
            print(f"{label:24}{name:12}" + " ".join(f"{value:{sign}}".rjust(5) for value in row))


main()
