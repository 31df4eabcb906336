"""A linear peer of the classifier: fastText, in four settings.

    python fasttext_classify.py FOLDER [--sets sst2,trec] [--threads 1] [--rounds 1] [--fast]

FOLDER is that of `bench -- accuracy` (see labelled.py). Texts are lower-cased and punctuation is separated, as in
fastText's tutorial. If words are not separated by spaces, each character is a word. Prints one JSON object for each set
and setting, then one that names the best setting on the dev rows (or a tenth of the training rows) and the best on the
test rows. No user can know the latter, so it is the one to beat. Uses one thread, because more threads do not give the
same model twice.

Seconds of training are the median of --rounds. They include preparing, writing and reading the text. --fast adds the
fastest setting, words alone, which is not part of the comparison.
"""

import json
import re
import statistics
import tempfile
import time

import fasttext
from sklearn.metrics import accuracy_score, f1_score

import labelled

COMMON = {"lr": 0.5, "dim": 100, "epoch": 25, "minCount": 1, "loss": "softmax", "verbose": 0}
SETTINGS = {
    "words, and parts of words": {"wordNgrams": 1, "minn": 3, "maxn": 5},
    "pairs of words": {"wordNgrams": 2},
    "runs of up to four words": {"wordNgrams": 4},
    "pairs of words, and parts of words": {"wordNgrams": 2, "minn": 3, "maxn": 5},
}

FAST = {"words": {"wordNgrams": 1}}


def prepared(text, unspaced):
    """One line with spaces between words."""
    if unspaced:
        return " ".join(character for character in text.lower() if not character.isspace())
    return " ".join(re.sub(r"([^\w\s])", r" \1 ", text.lower()).split())


def train(rows, names, unspaced, settings, threads):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as lines:
        for text, label in zip(rows.texts, rows.labels):
            lines.write(f"__label__{names[label]} {prepared(text, unspaced)}\n")
        lines.flush()
        rate = COMMON["lr"]
        while True:
            try:
                given = {**COMMON, **settings, "lr": rate}
                return fasttext.train_supervised(input=lines.name, thread=threads, **given), rate
            except RuntimeError as error:
                # fastText's own advice if numbers overflow.
                if "NaN" not in str(error) or rate < 0.01:
                    raise
                rate /= 2


def predict(model, texts, names, unspaced):
    # `model.predict` calls `model.f`, but first calls NumPy in a way that NumPy 2 rejects.
    label_of = {f"__label__{number}": label for label, number in names.items()}
    found = [model.f.predict(prepared(text, unspaced) + "\n", 1, 0.0, "strict") for text in texts]
    # A text without known words gets no prediction.
    return [label_of[prediction[0][1]] if prediction else "" for prediction in found]


def main():
    parser = labelled.parser(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--fast", action="store_true")
    arguments = parser.parse_args()
    for data in labelled.load_sets(arguments):
        unspaced = data.unspaced()
        names = {label: number for number, label in enumerate(sorted(set(data.train.labels)))}
        rows, dev = data.held_out(seed=1)
        reports = []
        for name, settings in {**SETTINGS, **(FAST if arguments.fast else {})}.items():
            times = []
            for _ in range(arguments.rounds):
                start = time.perf_counter()
                model, rate = train(data.train, names, unspaced, settings, arguments.threads)
                times.append(time.perf_counter() - start)
            predicted = predict(model, data.test.texts, names, unspaced)
            # Without a dev file, a setting is judged by a model that was not trained on the rows that judge it.
            judged = model if data.dev is not None else train(rows, names, unspaced, settings, arguments.threads)[0]
            report = {
                "set": data.name,
                "setting": name,
                "accuracy": round(100 * accuracy_score(data.test.labels, predicted), 2),
                "macro_f1": round(100 * f1_score(data.test.labels, predicted, average="macro"), 2),
                "dev_accuracy": round(100 * accuracy_score(dev.labels, predict(judged, dev.texts, names, unspaced)), 2),
                "train_seconds": round(statistics.median(times), 2),
                "least_and_most_seconds": [round(min(times), 2), round(max(times), 2)],
                **COMMON,
                **settings,
                "lr": rate,
                "threads": arguments.threads,
            }
            if name in SETTINGS:
                reports.append(report)
            print(json.dumps(report), flush=True)
        by_dev, by_test = (max(reports, key=lambda report: report[key]) for key in ("dev_accuracy", "accuracy"))
        best = {
            "set": data.name,
            "best_by_test": by_test["accuracy"],
            "its_setting": by_test["setting"],
            "best_by_dev": by_dev["accuracy"],
            "setting_by_dev": by_dev["setting"],
            "peer": "fastText",
            "processor": labelled.processor(),
        }
        print(json.dumps(best), flush=True)


if __name__ == "__main__":
    main()
