"""N-gram models for labels or numbers, and abstention when unsure."""

import math
import subprocess

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_answers import program, rated, same_files, uncertain  # noqa: E402

WORDS = {"food": "soup", "staff": "waiter", "price": "bill"}


def labelled(n=300):
    """Each label of a text is revealed by a word."""
    kinds = list(WORDS)
    sets = [[kind for place, kind in enumerate(kinds) if i * 5 % 8 >> place & 1] for i in range(n)]
    return [f"Visit {i}: {' and '.join(WORDS[kind] for kind in kinds) or 'nothing'} to tell." for i, kinds in enumerate(sets)], sets


def ngrams(kind, **parameters):
    return kind(model="ngrams", progress=None, **parameters)


def test_labels(tmp_path):
    texts, sets = labelled()
    model = ngrams(chumoku.TextClassifier, out=tmp_path / "ours").fit(texts, sets)
    assert model.metrics_["model"] == "ngrams" and model.metrics_["task"] == "labels"
    assert [set(found) for found in model.predict(texts)] == [set(labels) for labels in sets]
    assert model.predict_proba(texts[:3]).shape == (3, 3)
    assert model.predict(texts[:4], threshold=1.0) == [[]] * 4
    assert model.explain(texts[1]).data["ngrams"]
    again = chumoku.TextClassifier.load(tmp_path / "ours")
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))
    indicators = np.array([[kind in labels for kind in sorted(WORDS)] for labels in sets], int)
    np.testing.assert_array_equal(ngrams(chumoku.TextClassifier).fit(texts, indicators).predict(texts), indicators)
    with pytest.raises(ValueError, match="expected a model with a network, got n-grams only"):
        model.export(tmp_path / "model.onnx")


def test_numbers(tmp_path):
    texts, numbers = rated(300)
    model = ngrams(chumoku.TextRegressor, out=tmp_path / "ours").fit(texts, numbers)
    found = model.predict(texts)
    assert np.abs(found - numbers).mean() < 0.3 and model.score(texts, numbers) > 0.9
    interval = model.predict_interval(texts)
    assert (interval[:, 0] <= found).all() and (found <= interval[:, 1]).all()
    assert model.explain(texts[0]).data["number"]["score"] == pytest.approx(found[0], abs=0.1)
    (tmp_path / "rows.csv").write_text("number,text\n" + "".join(f'{number},"{text}"\n' for text, number in zip(texts, numbers)))
    words = [program(), "train", "rows.csv", "--task", "score", "--label", "number", "--model", "ngrams", "--out", "model"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    same_files(tmp_path / "model", tmp_path / "ours", "model.safetensors", "config.json")
    with pytest.raises(ValueError, match="layers"):
        ngrams(chumoku.TextRegressor, settings="layers=2").fit(texts, numbers)


@pytest.mark.parametrize("empty", ["", " \n", "\u3000"])
def test_empty_texts_are_rejected(empty):
    texts, numbers = rated(120)
    classifier = ngrams(chumoku.TextClassifier).fit(texts, [x > 3 for x in numbers])
    regressor = ngrams(chumoku.TextRegressor).fit(texts, numbers)
    tagger = chumoku.TextTagger(progress=None).fit([f"Anna waits {i}" for i in range(40)], [[(0, 4, "person")]] * 40)
    given = [texts[0], empty]
    for asked in (
        classifier.predict, classifier.predict_proba, regressor.predict, regressor.predict_interval, tagger.predict,
        lambda X: classifier.predict(X, abstain=0.5), lambda X: classifier.score(X, [True, False]), lambda X: regressor.score(X, [1, 2]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="^row 1: expected some characters, got an empty text"):
            asked(given)
        asked(texts[:2] if asked != tagger.predict else ["Anna waits"])
    for model in (classifier, regressor, tagger):
        with pytest.raises(ValueError, match="empty"):
            model.explain(empty)
    pairs = [(text, texts[0]) for text in texts]
    compared = ngrams(chumoku.TextClassifier).fit(pairs, [x > 3 for x in numbers])
    with pytest.raises(ValueError, match="^row 0: expected some characters"):
        compared.predict([(texts[0], empty)])
    table = {"text": texts, "size": list(range(120))}
    sized = ngrams(chumoku.TextClassifier, columns=["size"]).fit(table, [x > 3 for x in numbers])
    with pytest.raises(ValueError, match="^row 1: expected some characters"):
        sized.predict({"text": given, "size": [1, 2]})
    # An empty list is valid.
    assert len(classifier.predict([])) == 0 and regressor.predict([]).shape == (0,) and tagger.predict([]) == []


def test_abstention_for_labels():
    texts, classes, says = uncertain()
    model = ngrams(chumoku.TextClassifier).fit(texts, [["good" if label else "bad"] for label in classes])
    texts, classes, says = uncertain(first=1000)
    answers = model.predict(texts, abstain=0.9)
    answered = np.array([x is not None for x in answers])
    assert answered[says].mean() > 0.9 and answered[~says].mean() < 0.6
    right = [answers[row] == ["good" if classes[row] else "bad"] for row in answered.nonzero()[0]]
    assert np.mean(right) > 0.9, "as it promised"
    assert model.predict(["Zzyzx qqq wvw xyx"], abstain=0.9).tolist() == [None]
    with pytest.raises(ValueError, match="abstain: .*guarantee that 99.99 %"):
        model.predict(texts, abstain=0.9999)
    indicators = np.array([[label, 1 - label] for label in classes])
    with pytest.raises(ValueError, match="lists of labels"):
        ngrams(chumoku.TextClassifier).fit(texts, indicators).predict(texts, abstain=0.9)


def test_abstention_for_numbers():
    texts, classes, says = uncertain()
    # Without its word, a text may have any of three levels.
    stars = lambda: np.array([5 * label if said else row % 3 * 2.5 for row, (label, said) in enumerate(zip(classes, says))])
    model = ngrams(chumoku.TextRegressor).fit(texts, stars())
    texts, classes, says = uncertain(first=1000)
    found = model.predict(texts, abstain=0.8)
    assert np.isnan(found[says]).mean() < 0.1 and np.isnan(found[~says]).mean() > 0.3
    answered = ~np.isnan(found)
    assert (np.abs(found - stars())[answered] < 1.25).mean() > 0.75, "about what it promised"
    plain = model.predict(texts)
    assert (np.isnan(found) | (found == plain)).all()
    assert math.isnan(model.predict(["Zzyzx qqq wvw xyx"], abstain=0.8)[0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict(texts, abstain=80)
    measure = ngrams(chumoku.TextRegressor).fit(texts, [row * 1.25 for row in range(len(texts))])
    with pytest.raises(ValueError, match="abstain: .*a measure"):
        measure.predict(texts, abstain=0.8)
