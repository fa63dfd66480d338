"""Fits one weight for each score part of search hits, and says what each part is worth.

A listwise softmax: of the hits of a question, the right ones shall have the highest scores. Questions are divided by document into
folds; each is scored with the weights that the others gave. Without numpy, because a few hundred questions need none.
"""

import hashlib
import math

FOLDS = 5
STEPS = 200
RATE = 0.5
# Pulls weights towards 1, the weight that a part has today.
PULL = 0.01


def fold_of(document):
    return int(hashlib.sha256(document.encode()).hexdigest(), 16) % FOLDS


def score(parts, weights):
    return sum(weights.get(name, 0.0) * value for name, value in parts.items())


def fit(rows, names, scales):
    """Weights by gradient ascent on the share of probability that right hits have."""
    weights = dict.fromkeys(names, 1.0)
    for _ in range(STEPS):
        gradient = dict.fromkeys(names, 0.0)
        for row in rows:
            scores = [score(parts, weights) for parts in row["hits"]]
            top = max(scores)
            odds = [math.exp(value - top) for value in scores]
            total, right = sum(odds), sum(value for value, is_right in zip(odds, row["right"]) if is_right)
            for parts, value, is_right in zip(row["hits"], odds, row["right"]):
                pull = (value / right if is_right else 0.0) - value / total
                for name, part in parts.items():
                    if name in gradient:
                        gradient[name] += pull * part
        for name in names:
            weights[name] += RATE * (gradient[name] / len(rows) / scales[name] - PULL * (weights[name] - 1.0))
    return weights


def is_first_right(row, weights):
    """Whether a right hit has the highest score; without weights, whether the first hit is right."""
    if not row["hits"]:
        return False
    best = 0 if weights is None else max(range(len(row["hits"])), key=lambda at: score(row["hits"][at], weights))
    return row["right"][best]


def cross_validated(rows, names, scales):
    """The share of questions whose first hit is right, each by weights of the other folds. Without parts, the order as it is."""
    right = 0
    for fold in range(FOLDS):
        own = [row for row in rows if fold_of(row["document"]) == fold]
        others = [row for row in rows if fold_of(row["document"]) != fold and any(row["right"]) and not all(row["right"])]
        weights = fit(others, names, scales) if others and own else None
        right += sum(is_first_right(row, weights) for row in own)
    return right / len(rows)


def report(rows):
    """(name, value, n) of the order as it is, of the fitted weights, of each weight, and of each part left out."""
    if not rows:
        return
    names = sorted({name for row in rows for parts in row["hits"] for name in parts})
    known = {name: [abs(parts[name]) for row in rows for parts in row["hits"] if name in parts] for name in names}
    scales = {name: max(1e-6, sum(values) / len(values)) ** 2 for name, values in known.items()}
    yield "first hit right, as ranked", sum(is_first_right(row, None) for row in rows) / len(rows), len(rows)
    everything = cross_validated(rows, names, scales)
    yield "first hit right, fitted weights (cross-validated)", everything, len(rows)
    useful = [row for row in rows if any(row["right"]) and not all(row["right"])]
    weights = fit(useful, names, scales) if useful else {}
    for name in names:
        yield f"fitted weight of {name} (1 is today's)", weights.get(name, 1.0), len(known[name])
        without = [other for other in names if other != name]
        yield f"first hit right without {name}, change", cross_validated(rows, without, scales) - everything, len(rows)
