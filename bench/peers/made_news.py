"""Writes synthetic Japanese articles for timing classifiers. They are always the same.

    python made_news.py FOLDER [--rows 6000] [--test 1500] [--characters 1000] [--classes 9]

Writes FOLDER/train.tsv and FOLDER/test.tsv (text, label). Words are made of kana and kanji, and their frequencies
follow Zipf's law: particles that occur everywhere, 40,000 words and names, and set phrases of two to six words. Each
class prefers some words and phrases, and each article borrows from a second class, so that even a good classifier makes
some errors. """

import argparse
import itertools
from bisect import bisect
from pathlib import Path
from random import Random

PARTICLES = (
    "の に は を た が で て と し れ さ ある いる も する から な こと として い や など なっ ない この ため その あっ よう また もの という あり "
    "まで られ なる へ か だ これ によって により おり より による ず なり られる において ば なかっ なく しかし について だっ できる それ です ます ました"
).split()
KANJI = [chr(code) for code in range(0x4E00, 0x4E00 + 6000, 3)]
HIRAGANA = [chr(code) for code in range(0x3042, 0x3094) if chr(code) not in "ぃぅぇぉっゃゅょゎ"]
KATAKANA = [chr(code) for code in range(0x30A2, 0x30F4) if chr(code) not in "ィゥェォッャュョヮ"] + ["ー"] * 6
WORDS, PHRASES, OF_CLASS = 40_000, 20_000, 600


class Zipf:
    """Draws positions in a list; position r has a weight of 1 / (r + shift)."""

    def __init__(self, length, shift):
        self.sums = list(itertools.accumulate(1.0 / (rank + shift) for rank in range(length)))

    def draw(self, random):
        return min(bisect(self.sums, random.random() * self.sums[-1]), len(self.sums) - 1)


FREQUENT_KANJI = Zipf(len(KANJI), 40.0)


def pick(random, items):
    return items[int(random.random() * len(items))]


def made_word(random):
    kind = random.random()
    if kind < 0.65:
        word = "".join(KANJI[FREQUENT_KANJI.draw(random)] for _ in range(1 + int(random.random() * 2.6)))
        return word + (pick(random, HIRAGANA) if random.random() < 0.3 else "")
    if kind < 0.85:
        return "".join(pick(random, KATAKANA) for _ in range(2 + int(random.random() * 4)))
    return "".join(pick(random, HIRAGANA) for _ in range(2 + int(random.random() * 3)))


class Language:
    def __init__(self, classes, random):
        self.words = [made_word(random) for _ in range(WORDS)]
        self.common = Zipf(WORDS, 8.0)
        self.particle = Zipf(len(PARTICLES), 2.0)
        self.phrases = ["".join(self.plain(random) for _ in range(2 + int(random.random() * 5))) for _ in range(PHRASES)]
        self.phrase = Zipf(PHRASES, 20.0)
        self.liked = [
            [pick(random, self.words if random.random() < 0.8 else self.phrases) for _ in range(OF_CLASS)]
            for _ in range(classes)
        ]
        self.favourite = Zipf(OF_CLASS, 5.0)

    def plain(self, random):
        if random.random() < 0.5:
            return PARTICLES[self.particle.draw(random)]
        return self.words[self.common.draw(random)]

    def article(self, label, second, characters, random):
        parts, length, sentence = [], 0, 0
        share = 0.02 + 0.10 * random.random()
        borrowed = 0.05 + 0.55 * random.random()
        while length < characters:
            kind = random.random()
            if kind < share:
                liked = self.liked[second if random.random() < borrowed else label]
                part = liked[self.favourite.draw(random)]
            elif kind < share + 0.08:
                part = self.phrases[self.phrase.draw(random)]
            else:
                part = self.plain(random)
            sentence += len(part)
            if sentence > 25 + 30 * random.random():
                part, sentence = part + ("。" if random.random() < 0.6 else "、"), 0
            parts.append(part)
            length += len(part)
        return "".join(parts)[:characters]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, default in (("rows", 6000), ("test", 1500), ("characters", 1000), ("classes", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    random = Random(1)
    language = Language(arguments.classes, random)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", arguments.rows), ("test", arguments.test)):
        with open(arguments.folder / f"{name}.tsv", "w", encoding="utf-8") as lines:
            lines.write("text\tlabel\n")
            for _ in range(rows):
                label, second = (int(random.random() * arguments.classes) for _ in range(2))
                lines.write(f"{language.article(label, second, arguments.characters, random)}\tclass{label}\n")


if __name__ == "__main__":
    main()
