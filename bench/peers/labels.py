"""Peers for several labels per text: micro-F1 and macro-F1 on test rows.

    python labels.py FOLDER sklearn        TF-IDF of words and pairs of words, a logistic regression for each label
    python labels.py FOLDER fasttext       fastText, one against all

FOLDER has train.tsv, dev.tsv and test.tsv with the columns text and labels, with commas between labels. One threshold
for all labels is chosen on the dev rows. """

import csv
import pathlib
import sys
import tempfile
import time

import numpy as np


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [row[0] for row in rows], [row[1].split(",") for row in rows]


def f1(truth, found):
    right, said, there = ((truth & found).sum(0), found.sum(0), truth.sum(0))
    of_labels = 2 * right / np.maximum(said + there, 1)
    return 2 * right.sum() / max(said.sum() + there.sum(), 1), of_labels[said + there > 0].mean()


def by_sklearn(train, dev, test, truth):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    x = vectors.fit_transform(train)
    for c in (1.0, 4.0, 16.0):
        model = OneVsRestClassifier(LogisticRegression(C=c, max_iter=1000), n_jobs=2).fit(x, truth)
        found = [model.predict_proba(vectors.transform(texts)) for texts in (dev, test)]
        yield c, found


def by_fasttext(train, dev, test, truth, names, labels):
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "train.txt"
        flat = lambda text: " ".join(text.lower().split())
        lines = ("".join(f"__label__{label} " for label in each) + flat(text) for text, each in zip(train, labels))
        file.write_text("\n".join(lines), encoding="utf-8")
        for epochs in (10, 25):
            model = fasttext.train_supervised(str(file), loss="ova", epoch=epochs, lr=0.5, wordNgrams=2, thread=2, verbose=0)

            def scores(texts):
                found = np.zeros((len(texts), len(names)))
                for i, text in enumerate(texts):
                    for p, label in model.f.predict(flat(text) + "\n", -1, 0.0, "strict"):
                        found[i, names.index(label.removeprefix("__label__"))] = p
                return found

            yield epochs, [scores(dev), scores(test)]


def main():
    folder, which = pathlib.Path(sys.argv[1]), sys.argv[2]
    (train, a), (dev, b), (test, c) = (read(folder / f"{part}.tsv") for part in ("train", "dev", "test"))
    names = sorted({label for each in a for label in each})
    indicator = lambda sets: np.array([[name in each for name in names] for each in sets])
    truth, of_dev, of_test = indicator(a), indicator(b), indicator(c)
    start, best = time.time(), (-1.0,)
    runs = by_sklearn(train, dev, test, truth) if which == "sklearn" else by_fasttext(train, dev, test, truth, names, a)
    for setting, (p_dev, p_test) in runs:
        threshold = max(np.arange(0.02, 0.9, 0.01), key=lambda t: f1(of_dev, p_dev >= t)[0])
        found = f1(of_dev, p_dev >= threshold)[0], setting, threshold, f1(of_test, p_test >= threshold)
        print(f"setting {setting}: dev micro-F1 {found[0]:.3f}", file=sys.stderr)
        best = max(best, found)
    _, setting, threshold, (micro, macro) = best
    print(f"{which}: micro-F1 {micro:.3f}, macro-F1 {macro:.3f} (setting {setting}, threshold {threshold:.2f}, {time.time() - start:.0f} s)")


if __name__ == "__main__":
    main()
