"""Measures how often the promises of `chumoku predict --abstain` hold, from training to prediction.

    python abstain_whole.py PROGRAM FILE LABEL_COLUMN TEXT_COLUMN [RUNS [TASK [LEVELS]]]

TASK is "classify" (default), "labels" (with commas between them) or "score". LEVELS are shares with commas between
them. Each run shuffles the rows of a CSV or TSV file, trains an n-gram model on most of them with a sixth to validate
and a sixth to test, and counts the errors among the answers to the test rows. """

import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile

LEVELS = "0.9,0.95"


def is_right(row, task):
    """Returns True if the answer to a row is right: the class, exactly the labels, or the nearest level."""
    truth = row["input"]["label"]
    if task == "labels":
        return {label["label"] for label in row["labels"]} == {label for label in truth.split(",") if label}
    if task == "score":
        levels = is_right.levels
        return min(levels, key=lambda level: abs(level - row["score"])) == float(truth)
    return row["label"] == truth


def main():
    file, label, text = sys.argv[2:5]
    program = str(pathlib.Path(sys.argv[1]).resolve())
    runs = int(sys.argv[5]) if len(sys.argv) > 5 else 100
    task = sys.argv[6] if len(sys.argv) > 6 else "classify"
    levels = (sys.argv[7] if len(sys.argv) > 7 else LEVELS).split(",")
    with open(file, encoding="utf-8", newline="") as source:
        form = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if file.endswith(".tsv") else {}
        rows = [(row[label], row[text]) for row in csv.DictReader(source, **form)]
    if task == "score":
        is_right.levels = sorted({float(label) for label, _ in rows})
    asked = ["--task", task] + (["--separator", ","] if task == "labels" else ["--label", "label"])
    found = {level: [] for level in levels}
    for run in range(runs):
        random.Random(run).shuffle(rows)
        cuts = [0, len(rows) // 6, len(rows) // 3, len(rows)]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for part, (start, end) in zip(("test", "valid", "train"), zip(cuts, cuts[1:])):
                with open(folder / f"{part}.csv", "w", encoding="utf-8", newline="") as out:
                    csv.writer(out).writerows([("label", "text"), *rows[start:end]])
            call = lambda *words: subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
            trained = call("train", "train.csv", "--valid", "valid.csv", "--test", "test.csv", "--model", "ngrams", "--out", "model", *asked)
            assert trained.returncode == 0, trained.stderr
            for level in levels:
                said = call("predict", "model", "--input", "test.csv", "--json", "--abstain", level)
                if said.returncode == 2 and "promise" in said.stderr:
                    found[level].append(None)
                    continue
                assert said.returncode == 0, said.stderr
                answers = [json.loads(line) for line in said.stdout.splitlines()]
                answered = [is_right(row, task) for row in answers if not row["abstained"]]
                found[level].append((len(answered) / len(answers), sum(answered) / max(1, len(answered))))
    for level, all_of in found.items():
        made = [one for one in all_of if one]
        kept = len(all_of) - len(made) + sum(right >= float(level) for _, right in made)
        covers = sum(covers for covers, _ in made) / max(1, len(made))
        print(f"{level}: kept in {kept} of {len(all_of)}, no promise in {len(all_of) - len(made)}, answers {covers:.1%}")


main()
