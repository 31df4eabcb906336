"""Measures how often the promises of `chumoku predict --abstain` hold.

    chumoku predict MODEL --input test.csv --json > predicted.jsonl
    python abstain.py predicted.jsonl LABEL_COLUMN

Splits the rows into two halves at random, a hundred times. The threshold is chosen on one half, as the program does on
validation rows, and errors are counted on the other.
"""

import json
import math
import sys

import numpy as np
from scipy.stats import binom

DELTA, STARTS = 0.05, (1, 2, 4, 8)


def threshold(confidence, right, level):
    order = np.argsort(-confidence, kind="stable")
    confidence, wrong = confidence[order], np.cumsum(~right[order])
    ends = set()
    for step in range(1, 101):
        end = math.ceil(len(confidence) * step / 100)
        while end < len(confidence) and confidence[end] == confidence[end - 1]:
            end += 1
        ends.add(end)
    part, best = DELTA / len(STARTS), None
    for start in STARTS:
        for end in sorted(ends):
            if end < start * math.log(part) / math.log(level):
                continue
            if binom.cdf(wrong[end - 1], end, 1 - level) > part:
                break
            best = max(best or 0, end)
    return best and confidence[best - 1]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    confidence = np.array([row["probability"] for row in rows])
    right = np.array([str(row["input"][sys.argv[2]]) == str(row["label"]) for row in rows])
    random = np.random.default_rng(0)
    print(f"{len(rows)} rows, {right.mean():.1%} right")
    for level in (0.9, 0.95, 0.98):
        kept, covers, none = 0, [], 0
        for _ in range(100):
            order = random.permutation(len(rows))
            chosen, counted = order[: len(rows) // 2], order[len(rows) // 2 :]
            least = threshold(confidence[chosen], right[chosen], level)
            if least is None:
                none, kept = none + 1, kept + 1
                continue
            answered = confidence[counted] >= least
            covers.append(answered.mean())
            kept += not answered.any() or right[counted][answered].mean() >= level
        covered = f"{np.mean(covers):.1%}" if covers else "nothing"
        print(f"{level:.2f}: kept in {kept} of 100, no promise in {none}, answers {covered}")


main()
