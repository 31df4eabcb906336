"""Compares cleanlab and `chumoku doctor`: the share of N flipped labels among the first N of a ranking.

    python label_issues.py FOLDER [--sets trec,ja_jrte_sentiment] [--share 0.05] [--seeds 1,2,3] [--c 10] [--program chumoku]

FOLDER is that of `bench -- accuracy` (see labelled.py). A share of the training rows of each set gets another label,
drawn uniformly. cleanlab ranks the rows by probabilities from five folds of TF-IDF and logistic regression, the model
of sklearn_linear.py. With --program, `chumoku doctor` ranks the same rows. Prints one JSON object per set and seed. """

import json
import random
import subprocess
import tempfile
import time
from pathlib import Path

import cleanlab
import labelled
import numpy
import sklearn
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline


def flipped(labels, share, seed):
    """Returns the labels with a share of them flipped, and the flipped rows."""
    classes, draw = sorted(set(labels)), random.Random(seed)
    rows = draw.sample(range(len(labels)), round(share * len(labels)))
    changed = list(labels)
    for row in rows:
        changed[row] = draw.choice([name for name in classes if name != labels[row]])
    return changed, set(rows)


def probabilities(data, texts, labels, c, seed):
    if data.unspaced():
        vectorizer = TfidfVectorizer(ngram_range=(1, 4), sublinear_tf=True, analyzer="char")
    else:
        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    model = make_pipeline(vectorizer, LogisticRegression(C=c, max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return cross_val_predict(model, texts, labels, cv=folds, method="predict_proba")


def by_cleanlab(p, labels):
    """Ranks all rows by each of its two scores, and with its issues first, then the other rows by the same score."""
    rankings = {}
    for score in ("self_confidence", "normalized_margin"):
        rows = list(numpy.argsort(get_label_quality_scores(labels, p, method=score), kind="stable"))
        issues = list(find_label_issues(labels, p, return_indices_ranked_by=score))
        known = set(issues)
        rankings[score] = rows
        rankings[f"{score}_issues_first"] = issues + [row for row in rows if row not in known]
    return rankings


def by_program(program, texts, labels, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for text, label in zip(texts, labels):
                file.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")
        command = [program, "doctor", str(path), "--json", "--seed", str(seed)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(run.stdout)
    return [line - 1 for line in found["ranking"]], found["noise"]["share"]


def main():
    parser = labelled.parser(__doc__)
    parser.set_defaults(sets="trec,ja_jrte_sentiment")
    parser.add_argument("--share", type=float, default=0.05, help="share of labels to flip (0.05)")
    parser.add_argument("--seeds", default="1,2,3", help="seeds of the flips (1,2,3)")
    parser.add_argument("--c", type=float, default=10.0, help="inverse strength of the L2 penalty (10)")
    parser.add_argument("--program", help="the chumoku command")
    arguments = parser.parse_args()
    for data in labelled.load_sets(arguments):
        texts = data.train.texts
        for seed in map(int, arguments.seeds.split(",")):
            labels, rows = flipped(data.train.labels, arguments.share, seed)
            among_first = lambda ranking: round(100 * len(rows.intersection(ranking[: len(rows)])) / len(rows), 2)
            numbers = numpy.unique(labels, return_inverse=True)[1]
            start = time.perf_counter()
            p = probabilities(data, texts, numbers, arguments.c, seed)
            rankings = by_cleanlab(p, numbers)
            seconds = time.perf_counter() - start
            report = {"set": data.name, "seed": seed, "rows": len(texts), "flipped": len(rows)}
            report |= {f"cleanlab_{name}": among_first(ranking) for name, ranking in rankings.items()}
            report |= {"cleanlab_seconds": round(seconds, 1), "c": arguments.c}
            if arguments.program:
                start = time.perf_counter()
                ranking, noise = by_program(arguments.program, texts, labels, seed)
                seconds = time.perf_counter() - start
                report |= {"chumoku": among_first(ranking), "chumoku_noise": round(noise, 4)}
                report |= {"chumoku_seconds": round(seconds, 1)}
            report["peer"] = f"cleanlab {cleanlab.__version__}, scikit-learn {sklearn.__version__}"
            print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
