"""Makes pairs of texts from single ones: of the same class, or of different ones. They are always the same.

    python made_pairs.py FOLDER OUT [--sets banking77,trec,ja_jrte_sentiment]

FOLDER is that of `bench -- accuracy` (see labelled.py). Writes OUT/SET/train.csv and OUT/SET/test.csv (first, second,
label). Each text of the training and dev rows is in one pair. Half of a class's texts are in pairs labeled `same`, and
the others, as long as there are two classes, in pairs labeled `other`. A fifth of the pairs are test rows. """

import csv
from pathlib import Path
from random import Random

import labelled


def pairs(rows, random):
    texts = {}
    for text, label in zip(rows.texts, rows.labels):
        texts.setdefault(label, []).append(text)
    found, left = [], {}
    for label, of_label in texts.items():
        random.shuffle(of_label)
        half = 2 * (len(of_label) // 4)
        found += [(*of_label[at : at + 2], "same") for at in range(0, half, 2)]
        left[label] = of_label[half:]
    while len(labels := sorted(label for label in left if left[label])) > 1:
        # The class with the most texts first, so that few are left over.
        first = max(labels, key=lambda label: len(left[label]))
        second = random.choice([label for label in labels if label != first])
        pair = [left[first].pop(), left[second].pop()]
        random.shuffle(pair)
        found.append((*pair, "other"))
    random.shuffle(found)
    return found


def main():
    parser = labelled.parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.set_defaults(sets="banking77,trec,ja_jrte_sentiment")
    arguments = parser.parse_args()
    for data in labelled.load_sets(arguments):
        rows = data.train
        if data.dev is not None:
            rows = labelled.Rows(rows.texts + data.dev.texts, rows.labels + data.dev.labels)
        found = pairs(rows, Random(1))
        cut = len(found) * 4 // 5
        (arguments.out / data.name).mkdir(parents=True, exist_ok=True)
        for name, part in (("train", found[:cut]), ("test", found[cut:])):
            with open(arguments.out / data.name / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("first", "second", "label"), *part])
        print(f"{data.name}: {len(found):,} pairs, {sum(label == 'same' for *_, label in found):,} of one class")


if __name__ == "__main__":
    main()
