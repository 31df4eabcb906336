"""A linear peer of the classifier: TF-IDF and logistic regression with scikit-learn.

    python sklearn_linear.py FOLDER [--sets sst2,trec] [--c 10]

FOLDER is that of `bench -- accuracy` (see labelled.py). The features are words and word pairs, or runs of one to four
characters if words are not separated by spaces. There is no search, so dev rows are not used. Prints one JSON object
per set. """

import json
import time

import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.pipeline import make_pipeline

import labelled


def main():
    parser = labelled.parser(__doc__)
    parser.add_argument("--c", type=float, default=10.0, help="inverse strength of the L2 penalty (10)")
    arguments = parser.parse_args()
    for data in labelled.load_sets(arguments):
        train = data.train
        if data.unspaced():
            vectorizer = TfidfVectorizer(ngram_range=(1, 4), sublinear_tf=True, analyzer="char")
        else:
            vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
        model = make_pipeline(vectorizer, LogisticRegression(C=arguments.c, max_iter=1000))
        start = time.perf_counter()
        model.fit(train.texts, train.labels)
        seconds = time.perf_counter() - start
        predicted = model.predict(data.test.texts)
        report = {
            "set": data.name,
            "accuracy": round(100 * accuracy_score(data.test.labels, predicted), 2),
            "macro_f1": round(100 * f1_score(data.test.labels, predicted, average="macro"), 2),
            "train_seconds": round(seconds, 1),
            "train_rows": len(train),
            "test_rows": len(data.test),
            "classes": len(set(train.labels)),
            "features": len(vectorizer.vocabulary_),
            "analyzer": vectorizer.analyzer,
            "c": arguments.c,
            "peer": f"scikit-learn {sklearn.__version__}",
            "processor": labelled.processor(),
        }
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
