"""A peer for predicting numbers, with scikit-learn: errors on test rows.

    python scores.py FOLDER

FOLDER has train.csv, dev.csv and test.csv with the columns rating and text. The model is a ridge regression over TF-IDF
of words and word pairs, with a penalty chosen on the dev rows. The baselines are the mean and the median of the
training rows. """

import csv
import pathlib
import sys
import time

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], np.array([float(row["rating"]) for row in rows])


def report(name, truth, found):
    error, squares = np.abs(found - truth).mean(), ((found - truth) ** 2).mean()
    line = f"{name:28} error {error:.3f}  RMSE {squares ** 0.5:.3f}  R2 {1 - squares / truth.var():.3f}"
    if np.ptp(found) > 0:
        line += f"  Spearman {spearmanr(truth, found)[0]:.3f}  Pearson {pearsonr(truth, found)[0]:.3f}"
    print(line)


def main():
    folder = pathlib.Path(sys.argv[1])
    (train, y), (dev, y_dev), (test, truth) = (read(folder / f"{name}.csv") for name in ("train", "dev", "test"))
    start = time.time()
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    x, x_dev, x_test = vectors.fit_transform(train), vectors.transform(dev), vectors.transform(test)
    models = [Ridge(alpha=alpha).fit(x, y) for alpha in (0.3, 1, 3, 10, 30)]
    best = min(models, key=lambda model: np.abs(model.predict(x_dev) - y_dev).mean())
    report(f"ridge (alpha {best.alpha}), {time.time() - start:.0f} s", truth, best.predict(x_test))
    report("always the mean", truth, np.full(len(truth), y.mean()))
    report("always the median", truth, np.full(len(truth), np.median(y)))


main()
