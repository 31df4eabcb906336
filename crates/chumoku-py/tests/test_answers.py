"""Regression, pairs, tagging, abstention, and the checkup of labels."""

import csv
import inspect
import json
import os
import pathlib
import pickle
import re
import subprocess

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAID = {"awful": 1, "poor": 2, "fair": 3, "good": 4, "superb": 5}
NAMES = ["Anna", "Ben", "Clara", "Hugo", "Emma", "Greta"]
CITIES = ["London", "Oslo", "Rome", "Lima", "Cairo", "Kyoto"]


def program():
    found = pathlib.Path(os.environ.get("CHUMOKU_PROGRAM", ROOT / "target" / "release" / "chumoku"))
    if not found.exists():
        pytest.skip("no command was built")
    return found


def same_files(one, other, *names):
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def rated(n=240):
    """Texts in which one word gives the rating."""
    words = list(SAID)
    return [f"Visit {i}: the meal was {words[i * 7 % 5]} today." for i in range(n)], [float(1 + i * 7 % 5) for i in range(n)]


@pytest.fixture(scope="module")
def regressor():
    return chumoku.TextRegressor(epochs=2, progress=None).fit(*rated())


def test_ratings_are_learned(regressor, tmp_path):
    texts, numbers = rated(20)
    found = regressor.predict(texts)
    assert found.shape == (20,) and found.dtype == np.float64
    assert np.abs(found - numbers).mean() < 0.3 and regressor.score(texts, numbers) > 0.9
    interval = regressor.predict_interval(texts)
    assert interval.shape == (20, 2) and (interval[:, 0] <= found).all() and (found <= interval[:, 1]).all()
    assert regressor.predict([]).shape == (0,) and regressor.predict_interval([]).shape == (0, 2)
    assert "mean_absolute_error" in regressor.metrics_
    assert regressor.explain(texts[0]).words
    regressor.save(tmp_path / "model")
    again = chumoku.TextRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(texts), found)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(regressor)).predict(texts), found)
    with pytest.raises(ValueError, match="expected a model for TextClassifier, got one for TextRegressor"):
        chumoku.TextClassifier.load(tmp_path / "model")


def test_r2_matches_scikit_learn(regressor):
    metrics = pytest.importorskip("sklearn.metrics")
    texts, numbers = rated(30)
    numbers[3] += 2.5
    expected = metrics.r2_score(numbers, regressor.predict(texts))
    assert regressor.score(texts, numbers) == pytest.approx(expected)
    same = [2.0] * 5
    assert regressor.score(texts[:5], same) == metrics.r2_score(same, regressor.predict(texts[:5])) == 0
    assert np.isnan(regressor.score([], [])) and np.isnan(regressor.score(texts[:1], numbers[:1]))
    sklearn = pytest.importorskip("sklearn.base")
    assert sklearn.is_regressor(regressor) and not sklearn.is_classifier(regressor)
    assert sklearn.clone(regressor).get_params() == regressor.get_params()


def test_numbers_match_the_command(tmp_path):
    texts, numbers = rated()
    lines = [json.dumps({"text": text, "number": x}) for text, x in zip(texts, numbers)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    words = [program(), "train", "rows.jsonl", "--task", "score", "--label", "number", "--epochs", "2", "--out", "model"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    chumoku.TextRegressor(epochs=2, progress=None, out=tmp_path / "ours").fit(texts, numbers)
    same_files(tmp_path / "model", tmp_path / "ours", "model.safetensors", "config.json")


@pytest.mark.parametrize(
    "y, error, match",
    [
        ([1, 2, "five", 4], TypeError, "row 2: expected a number, got str 'five'"),
        ([1, 2, None, 4], TypeError, "row 2: expected a number, got NoneType"),
        ([1, 2, float("nan"), 4], ValueError, "row 2: expected a finite number"),
        ([1, 2, 10**400, 4], ValueError, "row 2: expected a finite number"),
        (np.arange(4).astype("M8[ns]"), TypeError, "row 0: expected a number, got datetime64"),
        (np.arange(4).astype("m8[ns]"), TypeError, "row 0: expected a number, got timedelta64"),
        ({1, 2, 3, 4}, TypeError, "got set, which has no order"),
        ([1, 2, 3], ValueError, "expected a number for each of 4 texts, got 3"),
    ],
)
def test_invalid_numbers_are_rejected(y, error, match):
    with pytest.raises(error, match=match):
        chumoku.TextRegressor(progress=None).fit(["one", "two", "three", "four"], y)


def compared(n=200):
    """Pairs of texts: do both mention the same thing?"""
    things = ["soup", "room", "film", "book", "phone"]
    pairs = [(f"The {things[i % 5]} number {i} is here.", f"I saw a {things[(i + i % 2) % 5]} today, {i}.") for i in range(n)]
    return pairs, ["other" if i % 2 else "same" for i in range(n)]


def test_pairs_are_learned(tmp_path):
    pairs, labels = compared()
    model = chumoku.TextClassifier(epochs=1, progress=None, out=tmp_path / "ours").fit(pairs, labels)
    p = model.predict_proba(pairs[:6])
    assert p.shape == (6, 2)
    np.testing.assert_array_equal(model.predict_proba(np.array(pairs[:6], object)), p)
    # The model distinguishes the first text from the second.
    assert not np.array_equal(model.predict_proba([(b, a) for a, b in pairs[:6]]), p)
    assert model.explain(pairs[0]).words
    for wrong, match in [("a text", "expected pairs of texts"), (("a", "b", "c"), "expected two texts.* got 3"), (("a", 1), "second text")]:
        with pytest.raises(TypeError, match=match):
            model.predict([wrong])
    with pytest.raises(ValueError, match="row 1: .* empty text"):
        chumoku.TextClassifier(progress=None).fit([("a", "b"), ("a", " "), ("c", "d"), ("e", "f")], ["x", "y"] * 2)
    lines = [json.dumps({"text_1": a, "text_2": b, "label": label}) for (a, b), label in zip(pairs, labels)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    words = [program(), "train", "rows.jsonl", "--text", "text_1,text_2", "--epochs", "1", "--out", "model"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    same_files(tmp_path / "model", tmp_path / "ours", "model.safetensors", "config.json")


def test_single_texts_are_rejected_as_pairs():
    texts, labels = [f"good day {i}" if i % 2 else f"bad night {i}" for i in range(40)], ["y", "n"] * 20
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, labels)
    with pytest.raises(TypeError, match="expected single texts"):
        model.predict([("a", "b")])


def uncertain(n=600, first=0):
    """Three in four texts reveal their class; the others are uninformative."""
    draw = np.random.default_rng(first)
    labels = draw.integers(0, 2, n)
    says = draw.random(n) < 0.75
    words = np.where(labels == 1, "pleasant", "horrid")
    things = ["day", "night", "trip", "meal", "play", "walk", "talk", "ride"]
    texts = [f"On day {first + i} the {things[i % 8]} was {word if told else 'long'}." for i, (word, told) in enumerate(zip(words, says))]
    return texts, labels.tolist(), says


def test_uncertain_texts_are_abstained_from():
    texts, labels, says = uncertain()
    model = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, labels)
    texts, labels, says = uncertain(first=1000)
    answers = model.predict(texts, abstain=0.9)
    assert answers.dtype == object and {type(x) for x in answers} == {int, type(None)}
    answered = np.array([x is not None for x in answers])
    assert answered[says].mean() > 0.98, "it answers what can be known"
    assert answered[~says].mean() < 0.6, "and little else: a tenth of its answers may be guesses"
    assert (answers[answered] == np.array(labels)[answered]).mean() > 0.9, "as it promised"
    assert model.predict(["Zzyzx qqq wvw xyx"], abstain=0.9).tolist() == [None]
    with pytest.raises(ValueError, match="do not suffice to promise that 99.99 %"):
        model.predict(texts, abstain=0.9999)
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict(texts, abstain=95)


def test_class_weights():
    texts, labels, says = uncertain()
    kept = [i for i, label in enumerate(labels) if label == 0 or i % 3 == 0]
    texts, labels, unsure = [texts[i] for i in kept], [labels[i] for i in kept], [x for x, told in zip(*uncertain(first=1000)[::2]) if not told]
    plain, heavy, balanced = (
        chumoku.TextClassifier(model="ngrams", progress=None, class_weight=weight).fit(texts, labels).predict_proba(unsure)[:, 1].mean()
        for weight in (None, {1: 20.0}, "balanced")
    )
    assert 1.5 * plain < balanced < 0.4 < heavy
    for weight, match in [("much", "class_weight: expected one of balanced"), ({"two": 3.0}, "two"), ({1: -1.0}, "-1")]:
        with pytest.raises(ValueError, match=match):
            chumoku.TextClassifier(model="ngrams", progress=None, class_weight=weight).fit(texts, labels)


def test_answers_optimized_for_macro_f1(tmp_path):
    draw = np.random.default_rng(5)
    words = draw.integers(0, 10, 2500)
    labels = (draw.random(2500) < words / 9 * 0.4).astype(int).tolist()
    texts = [f"word{word} in room {i}" for i, word in enumerate(words)]
    asked = texts[:300]
    plain, chosen = (chumoku.TextClassifier(model="ngrams", progress=None, optimize=o).fit(texts, labels) for o in (None, "macro_f1"))
    assert plain.metrics_["optimize"]["applied"] is False and chosen.metrics_["optimize"]["applied"] is True
    p = chosen.predict_proba(asked)
    assert (p == plain.predict_proba(asked)).all(), "probabilities stay as they are"
    factors = np.array(chosen.metrics_["optimize"]["factors"], np.float32)
    answers = chosen.predict(asked)
    assert (answers == chosen.classes_[(p * factors).argmax(1)]).all()
    assert (answers == 1).sum() > (plain.predict(asked) == 1).sum()
    sure = chosen.predict(asked, abstain=0.8)
    assert all(answer is None or answer == told for answer, told in zip(sure, answers))
    assert (chosen.predict(asked, threshold={1: 0.999}) == 0).any()
    chosen.save(tmp_path / "model")
    again = chumoku.TextClassifier.load(tmp_path / "model")
    assert [str(x) for x in answers] == again.predict(asked).tolist()
    with pytest.raises(ValueError, match="optimize: expected one of macro_f1"):
        chumoku.TextClassifier(model="ngrams", progress=None, optimize="accuracy").fit(texts, labels)
    with pytest.raises(ValueError, match="optimize: expected one class per text"):
        chumoku.TextClassifier(model="ngrams", progress=None, optimize="macro_f1").fit(texts, [[x] for x in labels])


def named(n=150):
    """Sentences that say who lives where."""
    texts, spans = [], []
    for i in range(n):
        name, city = NAMES[i % 6], CITIES[i * 5 % 7 % 6]
        texts.append(f"{name} lives in {city}, in house {i}.")
        start = len(name) + 10
        spans.append([(0, len(name), "person"), (start, start + len(city), "place")])
    return texts, spans


@pytest.fixture(scope="module")
def tagger():
    return chumoku.TextTagger(progress=None).fit(*named(40))


def test_tagging(tmp_path):
    texts, spans = named()
    model = chumoku.TextTagger(progress=None, out=tmp_path / "ours").fit(texts, spans)
    assert model.classes_ == ["person", "place"] and model.score(texts, spans) > 0.99
    (found,) = model.predict(["Ben lives in Rome, in house 7."])
    assert [span[:4] for span in found] == [(0, 3, "person", "Ben"), (13, 17, "place", "Rome")]
    assert found[0].label == "person" and 0.5 < found[0].probability <= 1
    assert model.predict([]) == [] and "span_f1" in model.metrics_
    assert pickle.loads(pickle.dumps(model)).predict(texts[:3]) == model.predict(texts[:3])
    lines = [json.dumps({"text": text, "spans": each}) for text, each in zip(texts, spans)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    subprocess.run([program(), "train", "rows.jsonl", "--out", "model"], check=True, capture_output=True, cwd=tmp_path)
    same_files(tmp_path / "model", tmp_path / "ours", "model.safetensors", "config.json")
    # Spans may also be dictionaries.
    as_objects = [[dict(zip(("start", "end", "label"), span)) for span in each] for each in spans]
    assert model.score(texts, as_objects) == model.score(texts, spans)
    half = [each[:1] for each in spans]
    assert model.score(texts, half) == pytest.approx(2 / 3, abs=0.01), "half of what is found is not there"


def test_tagging_with_an_encoder(tmp_path):
    texts, spans = named(60)
    (tmp_path / "texts.txt").write_text("\n".join(texts * 4))
    words = [program(), "train", "texts.txt", "--task", "mlm", "--epochs", "1", "--out", "base"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    model = chumoku.TextTagger(epochs=1, from_pretrained=tmp_path / "base", progress=None, out=tmp_path / "ours").fit(texts, spans)
    assert model.score(texts, spans) > 0.9 and "network" in model.metrics_["parts"]
    lines = [json.dumps({"text": text, "spans": each}) for text, each in zip(texts, spans)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    words = [program(), "train", "rows.jsonl", "--from", "base", "--epochs", "1", "--out", "model"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    same_files(tmp_path / "model", tmp_path / "ours", "model.safetensors", "config.json")
    assert chumoku.TextTagger.load(tmp_path / "ours").predict(texts[:3]) == model.predict(texts[:3])


@pytest.mark.parametrize(
    "spans, error, match",
    [
        ([(0, 99, "x")], ValueError, "row 1: expected a span within the 9 characters"),
        ([(2, 2, "x")], ValueError, "row 1: expected a span within"),
        ([(0, 4, "x"), (3, 6, "y")], ValueError, "row 1: spans .* overlap"),
        ([(0, 4, None)], TypeError, r"row 1: expected spans \(start, end, label\)"),
        ([(0.9, 4, "x")], TypeError, r"row 1: expected spans \(start, end, label\)"),
        ([(0, 4)], TypeError, r"row 1: expected spans \(start, end, label\)"),
        ("person", TypeError, "row 1: expected a list of spans"),
        ([(0, 4, " ")], ValueError, "row 1: .* empty label"),
    ],
)
def test_invalid_spans_are_rejected(tagger, spans, error, match):
    with pytest.raises(error, match=match):
        chumoku.TextTagger(progress=None).fit(["some text"] * 4, [[], spans, [], []])
    with pytest.raises(error, match=match):
        tagger.score(["some text"] * 4, [[], spans, [], []])


def test_checkup(tmp_path):
    texts, labels, says = uncertain(400)
    labels = [["horrid", "pleasant"][label] for label in labels]
    sure = np.flatnonzero(says)
    flipped = {int(i) for i in sure[5:200:20]}
    given = [{"horrid": "pleasant", "pleasant": "horrid"}[x] if i in flipped else x for i, x in enumerate(labels)]
    found = chumoku.doctor(texts, given, test=([texts[7]], ["horrid"]), unlabelled=["The walk was long.", "A horrid day."])
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(found))))
    assert again.data == found.data and again.page("ja") == found.page("ja") and again._examined.csv() == found._examined.csv()
    named = {doubt["row"] for doubt in found.wrong_labels}
    assert flipped <= named, "each label that is wrong is found"
    assert all(doubt["text"] == texts[doubt["row"]] and doubt["label"] == given[doubt["row"]] for doubt in found.wrong_labels)
    assert found.ranking[0] in named and sorted(found.ranking) == list(range(400))
    assert found.data["leaks"][0]["of"] == 7 and found.data["leaks"][0]["row"] == 0
    assert {row["row"] for row in found.data["next"]} <= {0, 1}
    assert "400 rows" in repr(found)
    for name, start in [("a.html", "<!doctype html>"), ("a.csv", "file,row,"), ("a.json", "{")]:
        found.save(tmp_path / name)
        assert (tmp_path / name).read_text().lower().startswith(start), name
    table = list(csv.DictReader((tmp_path / "a.csv").open(newline="")))
    wrong = {int(row["row"]) for row in table if row["finding"] == "wrong_label" and row["file"] == "rows"}
    assert wrong == named and {row["file"] for row in table} <= {"rows", "test", "unlabelled"}
    assert "chumoku-" not in (tmp_path / "a.html").read_text().split("<main", 1)[1], "no file that is gone is named"
    # A reason and the row column count rows in the same way.
    for doubt in found.wrong_labels:
        (told,) = (row["reason"] for row in table if row["file"] == "rows" and row["finding"] == "wrong_label" and int(row["row"]) == doubt["row"])
        for other in doubt["contradicted_by"]:
            assert re.search(rf"\\brow {other}\\b", told) or "more" in told, told
    with pytest.raises(ValueError, match="ends in .html, .csv or .json"):
        found.save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="folds"):
        chumoku.doctor(texts, given, folds=1)


def test_a_checkup_reports_what_fit_rejects():
    texts, labels, _ = uncertain(60)
    texts[3], labels[5] = "", None
    kinds = {(found["row"], found["finding"]) for found in chumoku.doctor(texts, labels).data["texts"]}
    assert {(3, "empty"), (5, "no_label")} <= kinds


def test_a_checkup_accepts_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    texts, labels, _ = uncertain(60)
    frame = pandas.DataFrame({"text": texts, "label": pandas.array(labels, "Int64")})
    frame.loc[3, "text"], frame.loc[5, "label"], labels = None, pandas.NA, [*labels]
    labels[7] = np.float32("nan")
    kinds = {(found["row"], found["finding"]) for found in chumoku.doctor(frame.text, frame.label).data["texts"]}
    assert {(3, "empty"), (5, "no_label")} <= kinds
    assert (7, "no_label") in {(found["row"], found["finding"]) for found in chumoku.doctor(texts, labels).data["texts"]}
    with pytest.raises(ValueError, match="row 5: expected a label, got nothing"):
        chumoku.TextClassifier(progress=None).fit(texts, frame.label)
    assert chumoku.doctor(texts, uncertain(60)[1], test=([], []), unlabelled=[]).data["leaks"] == []
    with pytest.raises(TypeError, match="test: expected two, texts and labels, got list"):
        chumoku.doctor(texts, uncertain(60)[1], test=texts)
    with pytest.raises(TypeError, match="class_weight: expected"):
        chumoku.TextClassifier(progress=None, class_weight=5).fit(texts, uncertain(60)[1])


def test_export(tmp_path, regressor):
    about = regressor.export(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").stat().st_size > 10_000 and about["lacks_ngrams"] is True
    texts, labels = compared()
    ngrams = chumoku.TextClassifier(model="ngrams", progress=None).fit([a for a, _ in texts], labels)
    with pytest.raises(ValueError, match="n-grams only"):
        ngrams.export(tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


def test_single_label_trees(tmp_path):
    things = {"home/kitchen": "pan", "home/garden": "lawn", "travel/train": "rail", "travel / plane": "wing"}
    labels = [list(things)[i % 4] for i in range(160)]
    texts = [f"The {things[label]} is number {i}." for i, label in enumerate(labels)]
    model = chumoku.TextClassifier(epochs=1, progress=None, out=tmp_path / "ours").fit(texts, labels)
    assert model.classes_.tolist() == ["home/garden", "home/kitchen", "travel/plane", "travel/train"]
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    subprocess.run([program(), "train", "rows.jsonl", "--epochs", "1", "--out", "model"], check=True, capture_output=True, cwd=tmp_path)
    same_files(tmp_path / "model", tmp_path / "ours", "model.safetensors", "config.json")
    assert "hierarchy" in json.loads((tmp_path / "ours" / "config.json").read_text())
    told = subprocess.run([program(), "predict", "model", "--input", "rows.jsonl", "--json"], check=True, capture_output=True, cwd=tmp_path)
    assert [json.loads(line)["label"] for line in told.stdout.splitlines()] == model.predict(texts).tolist()
    with pytest.raises(ValueError, match="form no tree"):
        model.predict(texts, abstain=0.9)
    plain = chumoku.TextClassifier(model="ngrams", progress=None, hierarchy="none").fit(texts, labels)
    assert "travel / plane" in plain.classes_.tolist()


def test_multi_label_trees():
    things = {"home/kitchen": "pan", "home / garden": "lawn", "travel/train": "rail"}
    kinds = list(things)
    labels = [[kinds[i % 3], kinds[(i + 1) % 3]] if i % 2 else [kinds[i % 3]] for i in range(160)]
    texts = [f"The {' and the '.join(things[label] for label in own)}, number {i}." for i, own in enumerate(labels)]
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels)
    assert model.classes_.tolist() == ["home", "home/garden", "home/kitchen", "travel", "travel/train"]
    # Labels are normalized for comparison: their parents are added.
    found = model.predict(texts)
    assert model.score(texts, labels) == model.score(texts, found) * model.score(texts, labels) > 0.8
    plain = chumoku.TextClassifier(model="ngrams", progress=None).fit(texts, [own[0] for own in labels])
    assert plain.score(texts, [own[0] for own in labels]) == plain.score(texts, [own[0].replace(" / ", "/") for own in labels]) > 0.6
    for own in model.predict(texts, threshold={"home": 0.999999}) + model.predict(texts, threshold={"home/kitchen": 0.000001}):
        assert all("/" not in label or label.split("/")[0] in own for label in own), own


def test_feature_columns_are_read(tmp_path):
    texts, labels, _ = uncertain(60)
    rows = "".join(f"{text},{i % 7},{label}\n" for i, (text, label) in enumerate(zip(texts, labels)))
    (tmp_path / "rows.csv").write_text("text,price,label\n" + rows)
    words = [program(), "train", "rows.csv", "--columns", "price", "--model", "ngrams", "--out", "model"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    model = chumoku.TextClassifier.load(tmp_path / "model")
    assert model.score({"text": texts, "price": [i % 7 for i in range(60)]}, list(map(str, labels))) > 0.5
    with pytest.raises(TypeError, match="columns= names feature columns"):
        model.predict(texts)


def test_every_argument_is_passed_on():
    for kind in (chumoku.TextClassifier, chumoku.TextRegressor, chumoku.TextTagger):
        for name in inspect.signature(kind).parameters:
            assert name in kind.__doc__, f"{kind.__name__}: {name}"
