"""Sample weights in `fit`."""

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_answers import rated  # noqa: E402
from test_classifier import THINGS, rows, small  # noqa: E402

FILES = ("model.safetensors", "config.json")


def labelled(labels):
    """Lists of labels."""
    return [["all", label] for label in labels]


def kinds():
    """Estimators with rows to train on."""
    texts, labels = rows()
    number = chumoku.TextRegressor
    return [
        (lambda **wish: small(model="ngrams", epochs=None, **wish), texts, labels),
        (lambda **wish: small(epochs=1, **wish), texts, labels),
        (lambda **wish: small(epochs=1, model="gru", class_weight="balanced", **wish), texts, labels),
        (lambda **wish: small(model="ngrams", epochs=None, **wish), texts, labelled(labels)),
        (lambda **wish: small(epochs=1, **wish), texts, labelled(labels)),
        (lambda **wish: number(model="ngrams", progress=None, **wish), *rated()),
        (lambda **wish: number(epochs=1, progress=None, **wish), *rated()),
    ]


def same(one, other):
    return all(one._model_files()[name] == other._model_files()[name] for name in FILES)


def test_weights_of_one_change_no_byte():
    for make, texts, answers in kinds():
        plain = make().fit(texts, answers)
        assert same(make().fit(texts, answers, np.ones(len(texts))), plain)
        # Equal weights count as no weights. These are 1 in single precision, but pass through the weighted code.
        almost = 1 + 1e-12 * np.arange(len(texts))
        weighted = make().fit(texts, answers, sample_weight=almost)
        assert same(weighted, plain)
        assert any("rows have weights" in note for note in weighted.metrics_["notes"])
        uneven = 1 + np.arange(len(texts)) % 3
        other = make().fit(texts, answers, uneven)
        assert not same(other, plain)
        # Only the ratios matter.
        assert same(make().fit(texts, answers, (4 * uneven).tolist()), other)
        # The fingerprint of the rows does not include their weights.
        assert other.metrics_["data_sha256"] == plain.metrics_["data_sha256"]


def test_rows_of_weight_0_are_left_out():
    for make, texts, answers in kinds():
        weights = 1.0 + np.arange(len(texts)) % 3
        weights[::7] = 0
        kept = [row for row, weight in enumerate(weights) if weight]
        # The labels of rows with weight 0 do not matter.
        wrong = [answers[(row + 1) % len(texts)] if weight == 0 else answers[row] for row, weight in enumerate(weights)]
        found = make().fit(texts, wrong, weights)
        assert same(found, make().fit([texts[row] for row in kept], [answers[row] for row in kept], weights[kept]))


def contested(n):
    """Texts of two kinds, with "yes" and "no" equally often. By weight, three in four are "yes" for the first kind and
    "no" for the second."""
    texts, labels, weights = [], [], []
    for i in range(n):
        kind, label = ("odd" if i % 2 else "plain"), ("yes" if i // 2 % 2 else "no")
        texts.append(f"The {THINGS[i // 4 % 10]} looks {kind} {kind}, number {i // 4}.")
        labels.append(label)
        weights.append(3 if (kind == "odd") == (label == "yes") else 1)
    return texts, labels, weights


@pytest.mark.parametrize("model, n", [("ngrams", 400), ("ngrams", 1600), ("transformer", 400)])
def test_probabilities_follow_the_weighted_rows(model, n):
    texts, labels, weights = contested(n)
    asked = ["The room looks odd odd.", "The room looks plain plain."]
    plain = small(model=model, epochs=None if model == "ngrams" else 6).fit(texts, labels)
    np.testing.assert_allclose(plain.predict_proba(asked)[:, 1], 0.5, atol=0.1)
    weighted = small(model=model, epochs=None if model == "ngrams" else 6).fit(texts, labels, weights)
    np.testing.assert_allclose(weighted.predict_proba(asked)[:, 1], [0.75, 0.25], atol=0.08)


def test_labels_and_numbers_follow_the_weighted_rows():
    texts, labels, weights = contested(1600)
    asked = ["The room looks odd odd.", "The room looks plain plain."]
    # All labels share one calibration factor. A label on every row would make each more confident than its rows
    # justify.
    sets = [[label, "some"] if row % 3 else [label] for row, label in enumerate(labels)]
    model = small(model="ngrams", epochs=None).fit(texts, sets, weights)
    yes = model.classes_.tolist().index("yes")
    np.testing.assert_allclose(model.predict_proba(asked)[:, yes], [0.75, 0.25], atol=0.1)
    numbers = [5.0 - row % 3 / 4 if label == "yes" else 1.0 for row, label in enumerate(labels)]
    regressor = chumoku.TextRegressor(model="ngrams", progress=None).fit(texts, numbers, weights)
    odd, plain = regressor.predict(asked)
    assert odd > 3.5 and plain < 2.5, (odd, plain)


def test_a_weight_approximates_repeated_rows():
    """Only approximately: repeated rows change which n-grams are rare and which rows are held out."""
    texts, labels = rows()
    labels = ["no" if row % 9 == 1 else label for row, label in enumerate(labels)]
    weights = [4 if row % 9 == 1 else 1 for row in range(len(texts))]
    again = [row for row, weight in enumerate(weights) for _ in range(weight)]
    ngrams = {"model": "ngrams", "epochs": None}
    plain = small(**ngrams).fit(texts, labels).predict_proba(texts)
    weighted = small(**ngrams).fit(texts, labels, weights).predict_proba(texts)
    repeated = small(**ngrams).fit([texts[row] for row in again], [labels[row] for row in again]).predict_proba(texts)
    assert np.abs(weighted - repeated).mean() < 0.6 * np.abs(plain - repeated).mean()


def test_mislabeled_rows_lose_their_influence():
    texts, labels = rows()
    wrong = ["no" if row % 5 < 2 else label for row, label in enumerate(labels)]
    clean = [float(a == b) for a, b in zip(labels, wrong)]
    asked = ["The soup was great.", "The film was lovely.", "The seat was superb."]
    ngrams = {"model": "ngrams", "epochs": None}
    of_wrong = small(**ngrams).fit(texts, wrong).predict_proba(asked)[:, 1]
    of_little = small(**ngrams).fit(texts, wrong, [max(weight, 0.05) for weight in clean]).predict_proba(asked)[:, 1]
    of_none = small(**ngrams).fit(texts, wrong, clean).predict_proba(asked)[:, 1]
    assert (of_wrong < of_little).all() and (of_little < of_none).all() and (of_none > 0.75).all()


@pytest.mark.parametrize(
    "weights",
    [[1.0], np.ones((160, 2)), -np.ones(160), np.zeros(160), np.full(160, np.nan), np.full(160, np.inf), ["a"] * 160],
    ids=["few", "wide", "negative", "zero", "nan", "inf", "text"],
)
def test_invalid_weights_are_rejected(weights):
    with pytest.raises(ValueError, match="sample_weight: expected|could not convert string"):
        small(model="ngrams", epochs=None).fit(*rows(), sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight: expected|could not convert string"):
        texts, numbers = rated(160)
        chumoku.TextRegressor(model="ngrams", progress=None).fit(texts, numbers, sample_weight=weights)


def test_too_few_weighted_rows_are_rejected():
    texts, labels = rows()
    with pytest.raises(ValueError, match=r"fit\(X, y\)"):
        small(model="ngrams", epochs=None).fit(texts, labels, [1] + [0] * 159)


def test_estimators_without_weights_reject_them():
    for estimator in (chumoku.TextTagger(), chumoku.Translator(), chumoku.LanguageModel()):
        with pytest.raises(TypeError, match="sample_weight"):
            estimator.fit(["a"] * 9, ["b"] * 9, sample_weight=[1] * 9)
        with pytest.raises(TypeError, match="fit: expected arguments among .*, got 'sample_weight'"):
            estimator.set_fit_request(sample_weight=True)


def test_weights_of_new_rows_in_continued_training(tmp_path):
    small(epochs=1, out=tmp_path / "model").fit(*rows())
    news = [f"Where is my {THINGS[i % 10]}, order {i}?" for i in range(40)]
    labels = ["question" if i % 4 else "no" for i in range(40)]
    weights = np.array([1.0 if i % 4 else 0.0 for i in range(40)])

    def further(*given, **weights):
        return small(from_pretrained=tmp_path / "model", epochs=1).fit(*given, old=rows(), **weights)

    kept = [row for row in range(40) if weights[row]]
    alone = further([news[row] for row in kept], [labels[row] for row in kept])
    assert same(further(news, labels, sample_weight=weights), alone)
    some = further(news, labels, sample_weight=weights + 0.1)
    assert not same(some, further(news, labels)) and some.metrics_["further"]["replays"] is True


def test_resuming_with_other_weights_is_rejected(tmp_path):
    texts, labels = rows()

    def interrupt(event):
        if event["event"] == "evaluated":
            raise RuntimeError("enough")

    weights = 1 + np.arange(len(texts)) % 3
    with pytest.raises(RuntimeError, match="enough"):
        small(epochs=3, out=tmp_path / "model", progress=interrupt).fit(texts, labels, weights)
    with pytest.raises(ValueError, match="checkpoint|data|rows"):
        small(epochs=3, out=tmp_path / "model", resume=True).fit(texts, labels, weights[::-1])
    resumed = small(epochs=3, out=tmp_path / "model", resume=True).fit(texts, labels, weights)
    assert same(resumed, small(epochs=3).fit(texts, labels, weights))


def test_scikit_learn_passes_weights():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV, cross_validate
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils.validation import has_fit_parameter

    texts, labels = map(np.array, rows())
    weights = 1.0 + np.arange(len(texts)) % 3
    weights[::5] = 0
    assert has_fit_parameter(small(), "sample_weight")

    def ngrams(**parameters):
        return small(model="ngrams", epochs=None, **parameters)

    expected = ngrams().fit(texts, labels, weights)
    name = "textclassifier"
    # Without metadata routing: by the step's name, or to every fit.
    piped = make_pipeline(FunctionTransformer(list), ngrams()).fit(texts, labels, **{f"{name}__sample_weight": weights})
    assert same(piped[-1], expected)
    searched = GridSearchCV(ngrams(), {"seed": [42]}, cv=2).fit(texts, labels, sample_weight=weights)
    assert same(searched.best_estimator_, expected)
    with sklearn.config_context(enable_metadata_routing=True):
        model = ngrams().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        assert sklearn.base.clone(model).get_metadata_routing().fit.requests["sample_weight"] is True
        piped = make_pipeline(FunctionTransformer(list), model).fit(texts, labels, sample_weight=weights)
        assert same(piped[-1], expected)
        searched = GridSearchCV(model, {"seed": [42]}, cv=2).fit(texts, labels, sample_weight=weights)
        assert same(searched.best_estimator_, expected)
        found = cross_validate(
            model, texts, labels, cv=2, params={"sample_weight": weights}, return_estimator=True, return_indices=True
        )
        for fold in range(2):
            train, test = (found["indices"][part][fold] for part in ("train", "test"))
            of_fold = ngrams().fit(texts[train], labels[train], weights[train])
            assert same(found["estimator"][fold], of_fold)
            assert found["test_score"][fold] == of_fold.score(texts[test], labels[test], weights[test])
        # An argument without a request is an error, not ignored.
        with pytest.raises(ValueError, match="sample_weight"):
            GridSearchCV(ngrams(), {"seed": [1]}, cv=2).fit(texts, labels, sample_weight=weights)
