"""The linear peer: TF-IDF and logistic regression with scikit-learn, on labelled text in any of four formats.

    python sklearn_linear.py train.csv test.csv [--text COLUMN] [--label COLUMN] [--analyzer word|char] [--c 10]

Reads .csv, .tsv (with or without a header), .jsonl and fastText lines (`__label__x text`), each also as .gz. Word
1,2-grams, or character 1- to 4-grams where words are not separated by spaces. Prints one JSON object.
"""

import argparse
import csv
import gzip
import json
import time
from pathlib import Path

import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.pipeline import make_pipeline

LABEL_NAMES = ("label", "category", "class", "target")


def read(path, text_column, label_column):
    """(texts, labels)"""
    name = path.name.removesuffix(".gz")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        if name.endswith(".jsonl"):
            rows = [json.loads(line) for line in file if line.strip()]
            return columns(rows, list(rows[0]), text_column, label_column)
        if name.endswith(".csv"):
            return delimited(csv.reader(file), text_column, label_column)
        if name.endswith(".tsv"):
            return delimited(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), text_column, label_column)
        pairs = [line.rstrip("\r\n").split(" ", 1) for line in file if line.startswith("__label__")]
        return [text for _, text in pairs], [label.removeprefix("__label__") for label, _ in pairs]


def delimited(reader, text_column, label_column):
    """Without a header, the columns are text and label."""
    rows = [row for row in reader if row]
    first = [cell.lower() for cell in rows[0]]
    has_header = text_column is not None or "text" in first
    names = rows.pop(0) if has_header else ["text", "label"]
    return columns([dict(zip(names, row)) for row in rows], names, text_column, label_column)


def columns(rows, names, text_column, label_column):
    text_column = text_column or next(name for name in names if name.lower() == "text")
    label_column = label_column or next(name for name in names if name.lower() in LABEL_NAMES)
    return [row[text_column] for row in rows], [str(row[label_column]) for row in rows]


def written_without_spaces(texts):
    sample = "".join(texts[:1000])
    return sum(character.isspace() for character in sample) < 0.05 * len(sample)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--text", help="name of the text column")
    parser.add_argument("--label", help="name of the label column")
    parser.add_argument("--analyzer", choices=["word", "char"], help="left out: decided by the spaces in the text")
    parser.add_argument("--c", type=float, default=10.0, help="inverse strength of the L2 penalty")
    arguments = parser.parse_args()

    train_texts, train_labels = read(arguments.train, arguments.text, arguments.label)
    test_texts, test_labels = read(arguments.test, arguments.text, arguments.label)
    analyzer = arguments.analyzer or ("char" if written_without_spaces(train_texts) else "word")
    if analyzer == "word":
        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    else:
        vectorizer = TfidfVectorizer(ngram_range=(1, 4), sublinear_tf=True, analyzer="char")
    model = make_pipeline(vectorizer, LogisticRegression(C=arguments.c, max_iter=1000))

    start = time.perf_counter()
    model.fit(train_texts, train_labels)
    train_seconds = time.perf_counter() - start
    start = time.perf_counter()
    predicted = model.predict(test_texts)
    predict_seconds = time.perf_counter() - start
    report = {
        "accuracy": round(accuracy_score(test_labels, predicted), 4),
        "macro_f1": round(f1_score(test_labels, predicted, average="macro"), 4),
        "train_seconds": round(train_seconds, 2),
        "predict_seconds": round(predict_seconds, 2),
        "train_rows": len(train_texts),
        "test_rows": len(test_texts),
        "classes": len(set(train_labels)),
        "features": len(vectorizer.vocabulary_),
        "analyzer": analyzer,
        "c": arguments.c,
        "peer": "scikit-learn",
        "version": sklearn.__version__,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
