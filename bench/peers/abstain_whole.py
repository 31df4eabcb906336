"""How often promises of `chumoku predict --abstain` are kept, from the training to the answers.

    python abstain_whole.py PROGRAM FILE LABEL_COLUMN TEXT_COLUMN [RUNS]

Shuffles the rows of a CSV file, trains an n-gram model on most of them with a sixth to validate and a sixth to test, and counts the
errors among the answers to the test rows; again and again.
"""

import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile

LEVELS = ("0.9", "0.95")


def main():
    file, label, text = sys.argv[2:5]
    program = str(pathlib.Path(sys.argv[1]).resolve())
    runs = int(sys.argv[5]) if len(sys.argv) > 5 else 100
    with open(file, encoding="utf-8", newline="") as source:
        rows = [(row[label], row[text]) for row in csv.DictReader(source)]
    found = {level: [] for level in LEVELS}
    for run in range(runs):
        random.Random(run).shuffle(rows)
        cuts = [0, len(rows) // 6, len(rows) // 3, len(rows)]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for part, (start, end) in zip(("test", "valid", "train"), zip(cuts, cuts[1:])):
                with open(folder / f"{part}.csv", "w", encoding="utf-8", newline="") as out:
                    csv.writer(out).writerows([("label", "text"), *rows[start:end]])
            call = lambda *words: subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
            trained = call("train", "train.csv", "--valid", "valid.csv", "--test", "test.csv", "--model", "ngrams", "--out", "model")
            assert trained.returncode == 0, trained.stderr
            for level in LEVELS:
                said = call("predict", "model", "--input", "test.csv", "--json", "--abstain", level)
                if said.returncode == 2 and "promise" in said.stderr:
                    found[level].append(None)
                    continue
                assert said.returncode == 0, said.stderr
                answers = [json.loads(line) for line in said.stdout.splitlines()]
                answered = [row["label"] == row["input"]["label"] for row in answers if not row["abstained"]]
                found[level].append((len(answered) / len(answers), sum(answered) / max(1, len(answered))))
    for level, all_of in found.items():
        made = [one for one in all_of if one]
        kept = len(all_of) - len(made) + sum(right >= float(level) for _, right in made)
        covers = sum(covers for covers, _ in made) / max(1, len(made))
        print(f"{level}: kept in {kept} of {len(all_of)}, no promise in {len(all_of) - len(made)}, answers {covers:.1%}")


main()
