"""Accuracy with few rows: Chumoku and a logistic regression on the same encoder's vectors.

    python few_rows.py FOLDER FEW --sets sst2,trec --per-class 8,16,64 --seeds 1,2,3,4,5
    python few_rows_table.py FEW ENCODER --chumoku target/release/chumoku [--sets sst2-8,trec-64] [--ways default,frozen]

FEW is the output of few_rows.py. For each set and number of rows, prints the mean test accuracy in % over the draws of

        n-grams      the n-gram member of the default model
    default      `chumoku train`
    frozen       `chumoku train --from ENCODER --freeze all`
    from         `chumoku train --from ENCODER`, and how often it took the regression
    C=1, CV      scikit-learn's LogisticRegression and LogisticRegressionCV on the vectors of `chumoku embed`

Each finished draw is also printed as a JSON object.
"""

import argparse
import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import mean

import labelled

WAYS = "default,frozen,from,peer"


def trained(arguments, folder, *more):
    """Trains a model on the draw in `folder` and returns its metrics."""
    with tempfile.TemporaryDirectory() as out:
        command = [arguments.chumoku, "train", folder / "train.tsv", "--test", folder / "test.tsv", "--out", f"{out}/model"]
        command += ["--threads", str(arguments.threads), *more]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        return json.loads(Path(out, "model", "metrics.json").read_text())


def vectors(arguments, texts):
    import numpy

    with tempfile.TemporaryDirectory() as out:
        rows = Path(out, "texts.txt")
        rows.write_text("".join(f"{' '.join(text.split())}\n" for text in texts), encoding="utf-8")
        command = [arguments.chumoku, "embed", arguments.encoder, "--input", rows, "--input-format", "text"]
        command += ["--out", f"{out}/vectors.npy", "--format", "npy", "--threads", str(arguments.threads)]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        return numpy.load(f"{out}/vectors.npy")


def peers(arguments, folder, of_test):
    """Returns the accuracy of scikit-learn's regressions on the vectors of a draw."""
    import warnings

    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

    warnings.simplefilter("ignore", FutureWarning)

    train, test = (labelled.read(folder / f"{part}.tsv") for part in ("train", "test"))
    name = folder.name.rsplit("-", 2)[0]
    if name not in of_test:
        of_test[name] = vectors(arguments, test.texts)
    x = vectors(arguments, train.texts)
    found = {"C=1": LogisticRegression(max_iter=3000)}
    if len(x) <= arguments.most_rows_for_cv:
        found["CV"] = LogisticRegressionCV(Cs=10, cv=5, max_iter=3000, use_legacy_attributes=False)
    return {way: model.fit(x, train.labels).score(of_test[name], test.labels) for way, model in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("few", type=Path, help="the output of few_rows.py")
    parser.add_argument("encoder", type=Path, help="a Hugging Face folder")
    parser.add_argument("--chumoku", default="target/release/chumoku")
    parser.add_argument("--sets", help="beginnings of names, such as sst2-8, with commas between (all)")
    parser.add_argument("--ways", default=WAYS, help=f"ways of training ({WAYS})")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most-rows-for-cv", type=int, default=1500, help="LogisticRegressionCV takes long on more")
    arguments = parser.parse_args()
    ways, wanted = arguments.ways.split(","), arguments.sets and arguments.sets.split(",")
    table, of_test = defaultdict(lambda: defaultdict(list)), {}
    for folder in sorted(arguments.few.iterdir()):
        group = folder.name.rsplit("-", 1)[0]
        if wanted and not any(f"{folder.name}-".startswith(f"{name}-") for name in wanted):
            continue
        found = {}
        if "default" in ways:
            metrics = trained(arguments, folder)
            found |= {"n-grams": metrics["parts"]["ngrams"]["accuracy"], "default": metrics["accuracy"]}
        if "frozen" in ways:
            found["frozen"] = trained(arguments, folder, "--from", arguments.encoder, "--freeze", "all")["accuracy"]
        if "from" in ways:
            metrics = trained(arguments, folder, "--from", arguments.encoder)
            found["from"] = metrics["accuracy"]
            found["regression taken"] = float((metrics.get("choice") or {}).get("taken") == "regression")
        if "peer" in ways:
            found |= peers(arguments, folder, of_test)
        for way, value in found.items():
            table[group][way].append(100 * value)
        print(json.dumps({"set": folder.name, **{way: round(100 * value, 2) for way, value in found.items()}}), flush=True)
    names = list(dict.fromkeys(way for row in table.values() for way in row))
    print("\n| set, rows a class | draws | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 2))
    for group, row in table.items():
        cells = [f"{mean(row[way]):.1f}" if row[way] else "" for way in names]
        print(f"| {group} | {max(map(len, row.values()))} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
