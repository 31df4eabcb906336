"""Reads labeled text for the peers of the classifier: the same files as `bench -- accuracy FOLDER`.

FOLDER holds a folder for each set, with files `train.*`, optionally `dev.*`, and `test.*`: .csv, .tsv (with or without
a header), .jsonl or fastText lines (`__label__x text`), each also as .gz. """

import argparse
import csv
import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path

SETS = "sst2,trec,banking77,ja_jrte_sentiment,imdb"
LABEL_NAMES = ("label", "category", "class", "target")


@dataclass
class Rows:
    texts: list[str]
    labels: list[str]

    def __len__(self):
        return len(self.texts)


@dataclass
class LabelledSet:
    name: str
    train: Rows
    dev: Rows | None
    test: Rows

    def unspaced(self):
        """Returns True if words are not separated by spaces, as in Japanese."""
        sample = "".join(self.train.texts[:1000])
        return sum(character.isspace() for character in sample) < 0.05 * len(sample)

    def held_out(self, seed):
        """Returns training rows and validation rows: the dev file, or a tenth of the training rows."""
        if self.dev is not None:
            return self.train, self.dev
        order = list(range(len(self.train)))
        random.Random(seed).shuffle(order)
        cut = len(order) // 10
        return take(self.train, order[cut:]), take(self.train, order[:cut])


def take(rows, indices):
    return Rows([rows.texts[i] for i in indices], [rows.labels[i] for i in indices])


def parser(description):
    """Returns a parser with the arguments of all peers of the classifier."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folder", type=Path, help="has a folder for each set, with train.*, test.* and optionally dev.*")
    made.add_argument("--sets", default=SETS, help=f"names of folders, with commas between ({SETS})")
    return made


def load_sets(arguments):
    for name in arguments.sets.split(","):
        at = arguments.folder / name
        train, dev, test = (file(at, stem) for stem in ("train", "dev", "test"))
        if train is None or test is None:
            raise SystemExit(f"{at}: expected files train.* and test.*")
        yield LabelledSet(name, read(train), read(dev) if dev else None, read(test))


def file(folder, stem):
    """Reads the first file whose name starts with `stem.`"""
    return next((path for path in sorted(folder.glob(f"{stem}.*"))), None)


def read(path):
    name = path.name.removesuffix(".gz")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as lines:
        if name.endswith(".jsonl"):
            rows = [json.loads(line) for line in lines if line.strip()]
            return columns(rows, list(rows[0]))
        if name.endswith(".csv"):
            return delimited(csv.reader(lines))
        if name.endswith(".tsv"):
            return delimited(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        pairs = [line.rstrip("\r\n").split(" ", 1) for line in lines if line.startswith("__label__")]
        return Rows([text for _, text in pairs], [label.removeprefix("__label__") for label, _ in pairs])


def delimited(reader):
    """Without a header, the columns are text and label."""
    rows = [row for row in reader if row]
    has_header = "text" in [cell.lower() for cell in rows[0]]
    names = rows.pop(0) if has_header else ["text", "label"]
    return columns([dict(zip(names, row)) for row in rows], names)


def columns(rows, names):
    text = next(name for name in names if name.lower() == "text")
    label = next(name for name in names if name.lower() in LABEL_NAMES)
    return Rows([row[text] for row in rows], [str(row[label]) for row in rows])


def processor():
    """Returns the name of the processor, to print with figures."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()
