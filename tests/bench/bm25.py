"""Plain BM25 over the pages as Stemma extracted them: what search must beat.

Lower case, a few endings cut off, k1 1.2, b .75; nothing is known of documents, sections or questions.
"""

import math
import re
from collections import Counter, defaultdict

K1, B = 1.2, 0.75
LISTED = 100
ENDINGS = [("sses", "ss"), ("ies", "y"), ("ings", ""), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", "")]


def stem(word):
    """Cuts one ending where at least three letters remain; a double consonant before it becomes one."""
    if not word.isalpha() or word.endswith("ss"):
        return word
    for ending, instead in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: len(word) - len(ending)] + instead
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls" else word.removesuffix("e")


def words_of(text):
    return [stem(word) for word in re.findall(r"[a-z0-9]+", text.lower())]


class Bm25:
    """An index of pages: {(document, page): text}."""

    def __init__(self, pages):
        self.lengths, self.postings = {}, defaultdict(list)
        for page, text in pages.items():
            counts = Counter(words_of(text))
            self.lengths[page] = sum(counts.values())
            for word, count in counts.items():
                self.postings[word].append((page, count))
        self.mean = sum(self.lengths.values()) / max(1, len(self.lengths))

    def ranked(self, question):
        """The best pages, best first; equal scores in reading order."""
        scores, total = defaultdict(float), len(self.lengths)
        for word, times in Counter(words_of(question)).items():
            postings = self.postings.get(word, ())
            weight = times * math.log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5))
            for page, count in postings:
                length = 1 - B + B * self.lengths[page] / self.mean
                scores[page] += weight * count * (K1 + 1) / (count + K1 * length)
        return sorted(scores, key=lambda page: (-scores[page], page))[:LISTED]
