"""Questions made from others, from the archive or from nothing: about the same company by another name, about rows of tables and headings,
and about what the archive lacks.

Everything is made from the questions, tests/truth/{names,absent}.json, the tables, trees and texts of the pages, with seeds: the same
documents give the same questions. That a word is absent is checked in the texts here, never taken from a list.
"""

import hashlib
import random
import re
from collections import Counter, defaultdict

from bm25 import words_of
from harness import CommandFailed, document_name, half_of, walk

# Of each kind, half of them about half A.
EACH = 20
# Documents speak of years beyond their own, in notes and outlooks. Nearer years than these are left out.
NEAR = 4
ABOUT_COMPANY = ["What was {name}'s revenue in the last fiscal year?", "How did {name}'s gross margin change?",
                 "What are the risk factors of {name}?", "How much debt does {name} have?"]
ABOUT_YEAR = ["What was {name}'s net income in FY{year}?", "How much cash did {name} have at the end of {year}?",
              "What were the total assets of {name} in fiscal year {year}?"]
ABOUT_WORD = ["What is said about {word}?", "Which risks come from {word}?"]
ABOUT_TOPIC = ["What does {name} say about {word}?", "How did {word} affect the results of {name}?"]


# Generated questions of a document, of each kind.
PER_DOCUMENT = 6
ABOUT_CELL = ["What was {row} in {column}?", "{row}, {column}", "How much did {row} come to for {column}?", "Give the figure for {row} ({column})."]
ABOUT_HEADING = ["Where is {title} discussed?", "What does the document say about {title}?", "{title}"]


def pattern(form):
    return re.compile(rf"(?<!\w){re.escape(form)}(?!\w)")


def company_of(document, companies):
    return next((company for company in companies if document.startswith(company["prefix"])), None)


def with_typo(name, seed):
    """One letter of the longest word dropped, or swapped with the next; the first letter stays."""
    rng = random.Random(seed)
    word = max(name.split(), key=len)
    if len(word) < 4:
        return None
    swaps = [at for at in range(1, len(word) - 1) if word[at] != word[at + 1]]
    at = rng.choice(swaps)
    wrong = word[:at] + word[at + 1] + word[at] + word[at + 2:] if rng.random() < 0.5 else word[:at] + word[at + 1:]
    return name.replace(word, wrong, 1)


def renamed(questions, companies):
    """{kind: questions} with every name of the company replaced; questions that do not name it are left out."""
    kinds = defaultdict(list)
    for question in questions:
        company = company_of(question["doc_name"], companies)
        if company is None:
            continue
        # Longest first, so that a name is not replaced inside another.
        forms = sorted([company["name"], *company["written"]], key=len, reverse=True)
        named = re.compile("|".join(pattern(form).pattern for form in forms))
        if not named.search(question["question"]):
            continue
        others = {"ticker": company["ticker"], "initials": company["initials"], "short form": company["short"],
                  "typo": with_typo(company["name"], question["id"])}
        for kind, other in others.items():
            if other:
                text = named.sub(other, question["question"])
                if not other.endswith("s"):
                    text = re.sub(rf"{re.escape(other)}'(?!s)", f"{other}'s", text)
                if text != question["question"]:
                    kinds[kind].append(question | {"question": text})
    return kinds


def generated(store, folder):
    """{kind: questions} about single cells of tables and about headings: of rows and titles that a document has once."""
    kinds = defaultdict(list)
    for label in store.documents():
        name = document_name(label)
        rng = random.Random(name)
        kinds["tables"] += [row | {"id": f"{name}-cell-{at}"} for at, row in enumerate(pick(list(about_cells(store, label)), rng, PER_DOCUMENT))]
    for name, tree in store.trees(folder).items():
        nodes = [node for _, node in walk(tree["structure"]) if node.get("start_index")]
        count = Counter(squash(node["title"].lower()) for node in nodes)
        single = [node for node in nodes if count[squash(node["title"].lower())] == 1 and len(node["title"].split()) > 1]
        for at, node in enumerate(pick(single, random.Random(name), PER_DOCUMENT)):
            text = ABOUT_HEADING[at % len(ABOUT_HEADING)].format(title=node["title"].strip(" .:").lower())
            kinds["headings"].append({"id": f"{name}-heading-{at}", "doc_name": name, "question": text, "gold_pages": [node["start_index"]]})
    return {kind: [row | {"half": half_of(row["doc_name"])} for row in rows] for kind, rows in kinds.items()}


def about_cells(store, label):
    """Questions about the cells of rows whose label no other row of the document has."""
    found = []
    for info in store.json("tables", label, expected=None).get("tables", []):
        try:
            table = store.json("table", info["locator"])["table"]
        except (CommandFailed, KeyError):
            continue
        for row in table["rows"]:
            cells = [(column.get("head"), cell) for column, cell in zip(table["columns"], row["cells"]) if cell and column.get("head")]
            if cells and len((row.get("label") or "").split()) > 1 and row.get("page"):
                found.append((row["label"], row["page"], [head for head, cell in cells if re.search(r"\d", cell.get("text", ""))]))
    count = Counter(squash(name.lower()) for name, _, _ in found)
    for at, (name, page, heads) in enumerate(found):
        if count[squash(name.lower())] == 1 and heads:
            text = ABOUT_CELL[at % len(ABOUT_CELL)].format(row=name, column=heads[at % len(heads)])
            yield {"doc_name": document_name(label), "question": text, "gold_pages": [page]}


def alternate(names):
    """Halves of what has no issuer: sorted by SHA-256, then alternating."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return {name: "AB"[at % 2] for at, name in enumerate(ordered)}


class Archive:
    """The texts of the archive by issuer, to say what occurs."""

    def __init__(self, pages, companies):
        self.text = "\n".join(pages.values()).lower()
        # Without white space and hyphens: a name may be broken over lines.
        self.squashed = squash(self.text)
        self.stems = Counter(stem for text in pages.values() for stem in set(words_of(text)))
        self.issuers = {}
        for company in companies:
            own = [text for (document, _), text in pages.items() if document.startswith(company["prefix"])]
            if own:
                self.issuers[company["prefix"]] = Issuer(company, own, half_of(company["prefix"]))

    def has(self, name):
        return squash(name.lower()) in self.squashed

    def has_words_of(self, template, name):
        """Whether the texts about a name have the words of a template: one that they lack would be a true alarm."""
        own = [issuer.stems for issuer in self.issuers.values() if name in (issuer.name, issuer.ticker)]
        stems = own[0] if own else self.stems
        return all(stem in stems for stem in words_of(re.sub(r"FY\{\w+\}|\{\w+\}('s)?", " ", template)))


class Issuer:
    def __init__(self, company, pages, half):
        self.name, self.ticker, self.half = company["name"], company["ticker"], half
        self.text = "\n".join(pages)
        self.squashed = squash(self.text.lower())
        self.stems = set(words_of(self.text))
        years = Counter(year for line in self.text.splitlines() for year in column_years(line))
        self.years = {year for year, count in years.items() if count > 1}

    def covers(self, year):
        """Whether a text speaks of a fiscal year, or has a column for it."""
        said = rf"\bfiscal\s+(year\s+)?{year}\b|\bFY\s?{year}\b"
        return year in self.years or self.ended(year) or re.search(said, self.text, re.IGNORECASE) is not None

    def ended(self, year):
        return re.search(rf"\bended\s+\w+\.?\s+\d+,?\s+{year}\b", self.text, re.IGNORECASE) is not None

    def lacks(self, topic):
        """A topic is lacking if one of its words occurs nowhere: words that are apart may mean it, too."""
        return squash(topic.lower()) not in self.squashed and any(stem not in self.stems for stem in words_of(topic))


def squash(text):
    return re.sub(r"[\s\-‐-―]+", "", text)


def column_years(line):
    """Years next to other years, as over columns."""
    return {int(year) for run in re.findall(r"(?:\b(?:19|20)\d\d\b[\s,]*){2,}", line) for year in re.findall(r"\d{4}", run)}


def pick(candidates, rng, count):
    return rng.sample(candidates, min(count, len(candidates)))


def question(kind, absent, half, text, term):
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    return {"id": f"{kind}-{name}", "kind": kind, "absent": absent, "half": half, "question": text, "term": term}


def made_up(pages, companies, material):
    """Questions about what is not there and, as many of each kind, about what is."""
    archive, rng = Archive(pages, companies), random.Random(16)
    templates = {"company": ABOUT_COMPANY, "year": ABOUT_YEAR, "word": ABOUT_WORD, "topic": ABOUT_TOPIC}
    issuers = list(archive.issuers.values())
    absent, there = defaultdict(list), defaultdict(list)
    missing = [name for name in material["companies"] if not archive.has(name)]
    for name, half in alternate(missing).items():
        absent["company"].append((half, name, {"name": name}))
    for issuer in issuers:
        for name in dict.fromkeys((issuer.name, issuer.ticker)):
            if pattern(name).search(issuer.text):
                there["company"] += [(issuer.half, name, {"name": name, "at": at}) for at in range(2)]
        own = sorted(issuer.years)
        for year in range(1985, 2045):
            far = own and not own[0] - NEAR < year < own[-1] + NEAR
            if far and not issuer.covers(year):
                absent["year"].append((issuer.half, str(year), {"name": issuer.name, "year": year}))
            # Years of maturities are over columns, too: a year is there if a period ended in it as well.
            if year in issuer.years and issuer.ended(year):
                there["year"].append((issuer.half, str(year), {"name": issuer.name, "year": year}))
        for topic in material["topics"]:
            fields = (issuer.half, topic, {"name": issuer.name, "word": topic})
            if squash(topic.lower()) in issuer.squashed:
                there["topic"].append(fields)
            elif issuer.lacks(topic) and archive.has(topic):
                absent["topic"].append(fields)
    # Another form of a word is the word.
    missing = [word for word in material["words"] if not archive.has(word) and not any(archive.stems[stem] for stem in words_of(word))]
    absent["word"] = [(half, word, {"word": word}) for word, half in alternate(missing).items()]
    counts = Counter(re.findall(r"\b[a-z]{7,}\b", "\n".join(issuer.text for issuer in issuers)))
    rare = pick(sorted(word for word, count in counts.items() if count <= 2), rng, EACH)
    there["word"] = [(half, word, {"word": word}) for word, half in alternate(rare).items()]
    made = []
    for kind, texts in templates.items():
        for is_absent, candidates in ((True, absent[kind]), (False, there[kind])):
            chosen = [one for half in "AB" for one in pick([one for one in candidates if one[0] == half], rng, EACH // 2)]
            for at, (half, term, fields) in enumerate(chosen):
                sound = [text for text in texts if archive.has_words_of(text, fields.get("name"))]
                if sound:
                    made.append(question(kind, is_absent, half, sound[at % len(sound)].format(**fields), term))
    return list({one["id"]: one for one in made}.values())


def said(answer, term=None):
    """Whether a search answer says that something is not there; with `term`, only if it is that, or the evidence is low.

    `missing_terms`: [{"term", "nearest"}], names and words of the question that no document in scope has;
    `low_evidence`: true if the score says that the answer is hardly in the results.
    """
    if answer.get("low_evidence"):
        return True
    terms = [squash(missing["term"].lower()) for missing in answer.get("missing_terms") or ()]
    wanted = squash(term.lower()) if term else None
    return any(wanted is None or found in wanted or wanted in found for found in terms if found)
