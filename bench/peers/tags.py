"""Computes seqeval's F1 of labeled spans, for `chumoku predict --json` and for a CRF (python-crfsuite).

    python tags.py seqeval test.conll predictions.jsonl     # predictions of `chumoku predict MODEL --input test.conll --json`
    python tags.py seqeval test.jsonl predictions.jsonl
    python tags.py crf train.conll test.conll
    python tags.py crf train.jsonl test.jsonl               # by characters

Rows of JSONL are compared character by character. Needs seqeval, and sklearn-crfsuite for `crf`.
"""

import json
import sys
import unicodedata

from seqeval.metrics import classification_report, f1_score


def conll(path):
    """Sentences of (word, tag)."""
    sentence = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split()
            if fields:
                sentence.append((fields[0], fields[-1]))
            elif sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def tags(places, spans):
    """Returns IOB2 tags of units that begin and end at these characters."""
    out = ["O"] * len(places)
    for span in spans:
        start, end, label = span if isinstance(span, list) else (span["start"], span["end"], span["label"])
        inside = [i for i, (first, last) in enumerate(places) if start <= first and last <= end]
        assert inside and places[inside[0]][0] == start and places[inside[-1]][1] == end, (span, "within a unit")
        for n, i in enumerate(inside):
            out[i] = ("B-" if n == 0 else "I-") + label
    return out


def rows(path):
    """Returns the positions of units and the true tags, per row."""
    if path.endswith(".jsonl"):
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            places = [(i, i + 1) for i in range(len(row["text"]))]
            yield places, tags(places, row["spans"])
        return
    for sentence in conll(path):
        places, at = [], 0
        for word, _ in sentence:
            places.append((at, at + len(word)))
            at += len(word) + 1
        yield places, [tag for _, tag in sentence]


def compare(truth_path, found_path):
    found = [json.loads(line)["spans"] for line in open(found_path, encoding="utf-8")]
    places, truth = zip(*rows(truth_path))
    assert len(found) == len(truth), (len(found), len(truth))
    found = [tags(of, spans) for of, spans in zip(places, found)]
    print(classification_report(list(truth), found, digits=4))
    print("F1", f1_score(list(truth), found))


def shape(word):
    return "".join("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word)[:8]


def seen(words, i):
    """Features of words: a window of two words on both sides, shapes, prefixes and suffixes."""
    features = {"bias": 1.0}
    for offset in range(-2, 3):
        at = i + offset
        word = words[at] if 0 <= at < len(words) else "<none>"
        features[f"{offset} word"] = word.lower()
        features[f"{offset} shape"] = shape(word)
    for n in range(1, 5):
        features[f"begins {n}"] = words[i][:n]
        features[f"ends {n}"] = words[i][-n:]
    return features


def kind(c):
    name = unicodedata.name(c, "?")
    return next((k for k in ("HIRAGANA", "KATAKANA", "CJK", "DIGIT", "LATIN") if k in name), c)


def near(text, i):
    """Features of characters: nearby sequences of one to three characters, and their kinds."""
    padded = "\x02" * 3 + text + "\x02" * 3
    kinds = ["^"] * 3 + [kind(c) for c in text] + ["^"] * 3
    features = {"bias": 1.0}
    for n in (1, 2, 3):
        for first in range(i, i + 8 - n):
            features[f"{n} {first - i}"] = padded[first : first + n]
            features[f"{n} {first - i} kinds"] = " ".join(kinds[first : first + n])
    return features


def crf(train_path, test_path):
    import sklearn_crfsuite

    def parts(path):
        if path.endswith(".jsonl"):
            texts = [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
            return [[near(t, i) for i in range(len(t))] for t in texts], [tags for _, tags in rows(path)]
        sentences = list(conll(path))
        words = [[word for word, _ in sentence] for sentence in sentences]
        return [[seen(s, i) for i in range(len(s))] for s in words], [[tag for _, tag in s] for s in sentences]

    (x, y), (x_test, y_test) = parts(train_path), parts(test_path)
    model = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=80, all_possible_transitions=True)
    model.fit(x, y)
    print(f"CRF: F1 {f1_score(y_test, model.predict(x_test)):.4f}")


if __name__ == "__main__":
    {"seqeval": compare, "crf": crf}[sys.argv[1]](*sys.argv[2:])
