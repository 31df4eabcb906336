"""Labels of any type keep their type, in scikit-learn's order."""

import copy
import datetime
import decimal
import enum
import fractions
import json
import pickle
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_classifier import rows  # noqa: E402


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Part(enum.Enum):
    item = "item"
    service = "service"


class Rank(enum.IntEnum):
    LOW = 10
    HIGH = 2


class Named(str, enum.Enum):
    YES = "y"
    NO = "n"


FIRST, SECOND = datetime.date(2026, 9, 1), datetime.date(2026, 11, 5)


def fitted(labels):
    texts, answers = rows(60)
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, labels(answers))
    return model, texts, labels(answers)


def choose(no, yes):
    return lambda answers: [yes if answer == "yes" else no for answer in answers]


@pytest.mark.parametrize(
    ("no", "yes", "kind"),
    [(Colour.RED, Colour.BLUE, "O"), (SECOND, FIRST, "O"), (decimal.Decimal("10.5"), decimal.Decimal("2"), "O"),
     (datetime.datetime(2026, 1, 2, 3), datetime.datetime(2026, 1, 1), "O"), (fractions.Fraction(1, 2), fractions.Fraction(1, 3), "O"),
     (True, False, "b"), (10, 9, "i"), (2.5, -1.0, "f"), (np.int16(7), np.int16(-7), "i"), (np.float32(0.1), np.float32(2), "f"),
     (np.str_("b"), np.str_("a"), "U"), (np.bool_(True), np.bool_(False), "b"), (1, "a", "O"), (2**70, 3, "O"), (b"b", b"a", "S"),
     (Rank.LOW, Rank.HIGH, "O"), (Named.YES, Named.NO, "O"), (np.datetime64("2026-02-01"), np.datetime64("2025-01-01"), "M")],
)  # fmt: skip
def test_labels_keep_their_type(no, yes, kind):
    model, texts, labels = fitted(choose(no, yes))
    assert model.classes_.dtype.kind == kind and len(model.classes_) == 2
    try:
        assert list(model.classes_) == sorted((no, yes))
    except TypeError:
        assert set(model.classes_) == {no, yes}
    found = model.predict(texts)
    assert found.dtype == model.classes_.dtype and all(a == b for a, b in zip(found, labels)) and model.score(texts, labels) == 1
    if kind == "O":
        assert {type(each) for each in found} == {type(no), type(yes)}
    # The columns of the probabilities follow the classes.
    best = model.predict_proba(texts[:4]).argmax(1)
    assert all(model.classes_[i] == label for i, label in zip(best, labels))
    again = pickle.loads(pickle.dumps(model))
    assert all(a == b for a, b in zip(again.predict(texts), labels)) and list(again.classes_) == list(model.classes_)
    assert all(a == b for a, b in zip(copy.deepcopy(model).predict(texts), labels))


@pytest.mark.parametrize("made", ["categorical", "series of categories", "datetime", "timezone", "nullable", "boolean", "period", "objects"])
def test_columns_of_pandas(made):
    pandas = pytest.importorskip("pandas")
    texts, answers = rows(60)
    is_yes = [answer == "yes" for answer in answers]
    days = [pandas.Timestamp("2026-02-03") if yes else pandas.Timestamp("2026-03-04") for yes in is_yes]
    labels = {
        "categorical": lambda: pandas.Categorical(answers, categories=["yes", "no", "perhaps"]),
        "series of categories": lambda: pandas.Series(pandas.Categorical(is_yes)),
        "datetime": lambda: pandas.Series(days),
        "timezone": lambda: pandas.Series(days).dt.tz_localize("Asia/Tokyo"),
        "nullable": lambda: pandas.Series([int(yes) for yes in is_yes], dtype="Int64"),
        "boolean": lambda: pandas.Series(is_yes, dtype="boolean"),
        "period": lambda: pandas.Series(days).dt.to_period("M"),
        "objects": lambda: pandas.Series([Colour.RED if yes else Colour.BLUE for yes in is_yes]),
    }[made]()
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, labels)
    found = model.predict(texts)
    assert all(a == b for a, b in zip(found, labels)) and model.score(texts, labels) == 1
    if made != "objects":
        expected = np.unique(np.asarray(labels))
        assert len(expected) == 2 and all(a == b for a, b in zip(model.classes_, expected))
    if made == "datetime":
        assert model.classes_.dtype.kind == "M"


def test_sets_of_labels_of_any_type():
    texts, answers = rows(80)
    labels = [[Colour.RED, FIRST] if answer == "yes" else [SECOND] for answer in answers]
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels)
    assert set(model.classes_) == {Colour.RED, FIRST, SECOND}
    assert {each for row in model.predict(texts) for each in row} <= {Colour.RED, FIRST, SECOND}
    numbers = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, [[1, 2] if answer == "yes" else [3] for answer in answers])
    assert all(type(each) is int for row in numbers.predict(texts) for each in row)


def test_abstained_labels_are_none():
    texts, answers = rows(160)
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, choose(SECOND, FIRST)(answers))
    found = model.predict(texts[:6] + ["xq zw 12 ü"], abstain=0.6)
    assert found.dtype == object and set(found[:6]) <= {FIRST, SECOND, None} and FIRST in found


def test_invalid_labels_are_rejected():
    texts, answers = rows(20)

    class Thing:
        pass

    one, other = Thing(), Thing()
    for no, yes, error, match in (
        (one, other, TypeError, "row 0: expected a label .* Thing, which has no string form of its own"),
        ({"a": 1}, {"b": 1}, TypeError, "row 0: .* dict, which cannot be hashed"),
        (None, "a", ValueError, "row 0: expected a label, got nothing"),
        (np.datetime64("NaT"), np.datetime64("2026-01-01"), ValueError, "got nothing"),
        (decimal.Decimal("NaN"), decimal.Decimal(1), ValueError, "got nothing"),
        (1, True, ValueError, "labels 1 and True are equal, but have different string forms"),
        ("1", 1, ValueError, "the same string form"),
    ):
        with pytest.raises(error, match=match):
            chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, choose(no, yes)(answers))


def test_labels_are_read_as_in_the_command(tmp_path):
    texts, answers = rows(60)
    spellings = {"yes": ["yes", "Yes", " yes"], "no": ["no", "NO", "ｎｏ"]}
    given = [spellings[answer][i % 3] for i, answer in enumerate(answers)]

    def model(**more):
        return chumoku.TextClassifier(model="ngrams", progress=None, **more)

    with pytest.warns(UserWarning, match="labels look like 2 .*merge_labels=True"):
        assert len(model().fit(texts, given).classes_) == 5
    merged = model(merge_labels=True, out=tmp_path / "ours").fit(texts, given)
    assert merged.score(texts, given) == merged.score(texts, [label.strip() for label in given])
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, given)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "chumoku", "train", str(tmp_path / "rows.jsonl"), "--model", "ngrams", "--merge-labels"]
    subprocess.run([*command, "--out", str(tmp_path / "model")], check=True, capture_output=True)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes(), name

    # Values that stand for a missing label.
    for label, missing, said in [
        ("N/A", None, "row 3: expected a label, got 'N/A', which stands for a missing one: .*missing="),
        ("nan", None, "row 3: expected a label, got 'nan'"),
        ("unknown", ["Unknown"], "row 3: expected a label, got 'unknown'"),
        (None, ["unknown"], "row 3: expected a label, got nothing"),
        (float("nan"), None, r"row 3: expected a label, got nothing \(None or NaN\)"),
    ]:
        with pytest.raises(ValueError, match=said):
            model(missing=missing).fit(texts, [*answers[:3], label, *answers[4:]])
    for label, missing in [("unknown", None), ("N/A", ["unknown"]), ("N/A", []), (None, []), (float("nan"), [])]:
        labels = [label if i % 5 == 3 else answer for i, answer in enumerate(answers)]
        assert set(model(missing=missing).fit(texts, labels).classes_) == {"yes", "no", str(label)}
    with pytest.raises(TypeError, match="missing: expected a list of texts"):
        model(missing="unknown").fit(texts, answers)


def test_score_reads_labels_as_fit_does():
    texts, answers = rows(60)

    def model(**more):
        return chumoku.TextClassifier(model="ngrams", progress=None, **more)

    # None and NaN are classes here; other labels are still trimmed and merged.
    for nothing in (None, float("nan")):
        given = [nothing if answer == "no" else answer for answer in answers]
        fitted = model(missing=[]).fit(texts, given)
        right = [str(label) == found for label, found in zip(given, fitted.predict(texts))]
        assert fitted.score(texts, given) == np.mean(right) > 0.9, nothing
        spaced = [nothing if label is nothing else f" {label} " for label in given]
        assert fitted.score(texts, spaced) == fitted.score(texts, given)
        varied = [nothing if label is nothing else ["yes", "Yes", " YES"][i % 3] for i, label in enumerate(given)]
        merged = model(missing=[], merge_labels=True).fit(texts, varied)
        assert len(merged.classes_) == 2 and merged.score(texts, varied) > 0.9
    # The same holds for strings mixed with numbers.
    mixed = model().fit(texts, [1 if answer == "no" else "yes" for answer in answers])
    assert mixed.score(texts, [1 if answer == "no" else " yes " for answer in answers]) > 0.9

    # A missing label cannot be compared, unless the model has such a class.
    plain = model().fit(texts, answers)
    for label, said in [(None, r"row 3: expected a label, got nothing \(None or NaN\)"), ("N/A", "row 3: expected a label, got 'N/A'")]:
        with pytest.raises(ValueError, match=said):
            plain.score(texts, [*answers[:3], label, *answers[4:]])
    given = ["N/A" if answer == "no" else answer for answer in answers]
    assert model(missing=[]).fit(texts, given).set_params(missing=None).score(texts, given) > 0.9
    several = [["N/A", 7] if answer == "no" else [" yes"] for answer in answers]
    fitted = model(missing=[]).fit(texts, several)
    assert fitted.score(texts, several) == fitted.score(texts, [{7, "N/A"} if len(labels) > 1 else ["yes"] for labels in several]) > 0.9
    with pytest.raises(ValueError, match="row 2: expected a label, got nothing"):
        fitted.set_params(missing=None).score(texts, [*several[:2], [None], *several[3:]])


def test_doctor_reads_labels_as_in_the_command():
    texts, answers = rows(60)
    given = [[answer, answer.upper()][i % 7 == 0] for i, answer in enumerate(answers)]
    given[3], given[4] = "N/A", None
    found = chumoku.doctor(texts, given, folds=2)
    assert found.data["labels"] == ["NO", "YES", "no", "yes"]
    found = chumoku.doctor(texts, given, folds=2, merge_labels=True)
    assert found.data["labels"] == ["no", "yes"]


def test_scikit_learn_with_object_labels():
    sklearn = pytest.importorskip("sklearn.model_selection")
    texts, answers = rows(60)
    days = np.array(["2026-02-01" if answer == "yes" else "2025-01-01" for answer in answers], "datetime64[D]")
    model = chumoku.TextClassifier(model="ngrams", progress=None)
    found = sklearn.cross_val_predict(model, texts, days, cv=2)
    assert found.dtype.kind == "M" and (found == days).mean() > 0.8


def test_fractions_and_enum_members_as_labels():
    texts, labels = rows(120)
    kinds = sorted(set(labels))
    parts = [Part.item if label == kinds[0] else Part.service for label in labels]
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, parts)
    assert set(model.predict(texts, threshold={Part.item: np.float32(0.25)})) == {Part.item, Part.service}
    with pytest.raises(ValueError, match="a share"):
        model.predict(texts, threshold={Part.item: True})


@pytest.mark.parametrize("kinds", [(True, 0), (1, 2.5), ("one", 1)])
def test_labels_of_two_types_keep_their_types(kinds):
    texts, labels = rows(120)
    names = sorted(set(labels))
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, [kinds[names.index(label)] for label in labels])
    assert {(type(label), label) for label in model.predict(texts)} == {(type(kind), kind) for kind in kinds}
