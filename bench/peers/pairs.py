"""A peer for pairs of texts, with scikit-learn: accuracy or errors on test rows.

    python pairs.py TRAIN.jsonl TEST.jsonl [DEV.jsonl]

Each row has sentence1, sentence2 and label. The features are products and differences of the TF-IDF of 1 to 3
characters of both texts. On jnli and jsts they are better without the TF-IDF itself. The model is a logistic regression
if the label is a word, and a ridge regression if it is a number. The penalty is chosen on the dev rows. Without dev
rows logistic regression keeps its default, because rows held out of a file share their sentences with the others. """

import json
import sys
import time

import numpy as np
import scipy.sparse as sp
from scipy.stats import pearsonr, spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge


def read(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [[row[key] for row in rows] for key in ("sentence1", "sentence2")], np.array([row["label"] for row in rows])


def main():
    train, test, *dev = sys.argv[1:]
    (texts, y), (test, truth) = read(train), read(test)
    start = time.time()
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2, sublinear_tf=True).fit(texts[0] + texts[1])

    def features(pair):
        a, b = (vectors.transform(side) for side in pair)
        return sp.hstack([a.multiply(b), abs(a - b)]).tocsr()

    x = features(texts)
    if dev:
        pair, y_dev = read(dev[0])
        x_dev = features(pair)
    else:
        x_dev, y_dev = x, y
    is_number = np.issubdtype(y.dtype, np.number)
    if is_number:
        models = [Ridge(alpha=alpha).fit(x, y) for alpha in (0.3, 1, 3, 10, 30)]
        best = min(models, key=lambda model: np.abs(model.predict(x_dev) - y_dev).mean())
        found = best.predict(features(test))
        print(f"ridge (alpha {best.alpha}), {time.time() - start:.0f} s: Pearson {pearsonr(truth, found)[0]:.3f}", end="  ")
        print(f"Spearman {spearmanr(truth, found)[0]:.3f}  mean absolute error {np.abs(found - truth).mean():.3f}")
    else:
        models = [LogisticRegression(C=c, max_iter=1000).fit(x, y) for c in ((0.3, 1, 3, 10, 30) if dev else (1,))]
        best = max(models, key=lambda model: model.score(x_dev, y_dev))
        accuracy = 100 * best.score(features(test), truth)
        print(f"logistic regression (C {best.C}), {time.time() - start:.0f} s: accuracy {accuracy:.1f} %")


main()
