"""Writes training files of a few labeled rows, for curves of accuracy by rows.

    python few_rows.py FOLDER OUT [--sets sst2,trec] [--rows 64,256,1024] [--seeds 1,2,3]
    python few_rows.py FOLDER OUT --per-class 8,16,64 --seeds 1,2,3,4,5

FOLDER is that of `bench -- accuracy` (see labelled.py). Writes OUT/SET-N-SEED/train.tsv and test.tsv. Pass OUT to
`bench -- accuracy` and to the peers of this folder, with `--sets SET-N-SEED`. The rows are drawn without replacement,
in proportion to the classes, at least one each; with --per-class, N rows of each class, or all of them. Dev rows are
left out, because a user with 64 labeled rows has no others for validation. """

import random
from pathlib import Path

import labelled


def drawn(rows, count, seed, per_class=False):
    """Draws `count` rows in proportion to the classes, or that many of each class."""
    generator = random.Random(seed)
    places = {}
    for place, label in enumerate(rows.labels):
        places.setdefault(label, []).append(place)
    found = []
    for label in sorted(places):
        share = count if per_class else max(1, round(count * len(places[label]) / len(rows)))
        found += generator.sample(places[label], min(share, len(places[label])))
    generator.shuffle(found)
    return labelled.take(rows, found)


def write(path, rows):
    lines = [f"{' '.join(text.split())}\t{label}\n" for text, label in zip(rows.texts, rows.labels)]
    path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")


def main():
    parser = labelled.parser(__doc__)
    parser.set_defaults(sets="sst2,trec")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", default="64,256,1024")
    parser.add_argument("--per-class", help="rows of each class, instead of --rows")
    parser.add_argument("--seeds", default="1,2,3")
    arguments = parser.parse_args()
    for data in labelled.load_sets(arguments):
        for count in map(int, (arguments.per_class or arguments.rows).split(",")):
            for seed in map(int, arguments.seeds.split(",")):
                folder = arguments.out / f"{data.name}-{count}-{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                write(folder / "train.tsv", drawn(data.train, count, seed, bool(arguments.per_class)))
                write(folder / "test.tsv", data.test)
                print(folder)


if __name__ == "__main__":
    main()
