"""Rows per second of `chumoku predict` and fastText on short rows, with linear models of the same training rows.

    python fasttext_predict.py FOLDER [--set sst2] [--rows 200000] [--rounds 5] [--chumoku target/release/chumoku]

FOLDER is that of `bench -- accuracy` (see labelled.py). The rows are 3 to 20 words drawn from the training texts,
always the same ones. Chumoku's time is that of the whole command, from a file on standard input to a file: starting,
loading the model, reading and predicting the rows, and writing each with its label and probability. fastText's time is
that of `predict` alone, on lines in memory, without writing. The two alternate. The medians are printed as one JSON
object. """

import json
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import fasttext_classify
import labelled
from fasttext_classify import prepared

SETTINGS = ("pairs of words", "pairs of words, and parts of words")


def main():
    parser = labelled.parser(__doc__)
    parser.add_argument("--set", default="sst2")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chumoku", type=Path, default=Path("target/release/chumoku"))
    arguments = parser.parse_args()
    arguments.sets = arguments.set
    (data,) = labelled.load_sets(arguments)
    unspaced = data.unspaced()
    joint = "" if unspaced else " "
    words = [word for text in data.train.texts for word in (text if unspaced else text.split())]
    source = random.Random(1)
    rows = [joint.join(source.choices(words, k=source.randint(3, 20))) for _ in range(arguments.rows)]

    with tempfile.TemporaryDirectory() as folder:
        model, lines, answers = (Path(folder) / name for name in ("model", "rows.txt", "answers.txt"))
        lines.write_text("\n".join(rows) + "\n", encoding="utf-8")
        training = labelled.file(arguments.folder / data.name, "train")
        subprocess.run(
            [arguments.chumoku, "train", training, "--model", "ngrams", "--out", model], check=True, capture_output=True
        )
        names = {label: number for number, label in enumerate(sorted(set(data.train.labels)))}
        peers = {
            name: fasttext_classify.train(data.train, names, unspaced, fasttext_classify.SETTINGS[name], 2)[0]
            for name in SETTINGS
        }
        given = [prepared(row, unspaced) + "\n" for row in rows]

        def ours():
            with lines.open("rb") as source, answers.open("wb") as target:
                subprocess.run(
                    [arguments.chumoku, "predict", model, "--format", "text"],
                    check=True,
                    stdin=source,
                    stdout=target,
                    stderr=subprocess.DEVNULL,
                )

        seconds = {"chumoku": []} | {name: [] for name in peers}
        for _ in range(arguments.rounds):
            seconds["chumoku"].append(timed(ours))
            for name, peer in peers.items():
                seconds[name].append(timed(lambda: peer.f.multilinePredict(given, 1, 0.0, "strict")))
        answered = answers.read_text(encoding="utf-8").count("\n")
    if answered not in (arguments.rows, arguments.rows + 1):
        raise SystemExit(f"expected {arguments.rows} answers, found {answered} lines")
    rates = {name: round(arguments.rows / statistics.median(times)) for name, times in seconds.items()}
    print(json.dumps({"set": data.name, "rows": arguments.rows, "rows_per_second": rates, "processor": labelled.processor()}))


def timed(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
