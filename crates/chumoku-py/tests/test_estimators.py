"""Estimators in scikit-learn's tools, single-column tables, sample weights, and invalid parameters."""

import types

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_classifier import rows, small  # noqa: E402
from test_answers import rated as rows_of_numbers  # noqa: E402


def ngrams(**parameters):
    return small(**({"model": "ngrams", "epochs": None} | parameters))


@pytest.fixture(scope="module")
def fitted():
    return ngrams().fit(*rows())


def tables(texts):
    """A single-column table in every form."""
    pandas = pytest.importorskip("pandas")
    return [
        pandas.DataFrame({"review": texts}),
        pandas.DataFrame({"review": texts}, index=range(7, 7 + len(texts))),
        np.array(texts, object)[:, None],
        np.array(texts)[:, None],
        {"review": texts},
    ]


def test_single_column_tables(fitted):
    texts, labels = rows()
    expected = fitted.predict_proba(texts)
    for x in tables(texts):
        np.testing.assert_array_equal(fitted.predict_proba(x), expected)
        assert fitted.score(x, np.array(labels)[:, None]) == fitted.score(texts, labels)
    pandas = pytest.importorskip("pandas")
    y = pandas.DataFrame({"label": labels})
    np.testing.assert_array_equal(ngrams().fit(tables(texts)[0], y).predict_proba(texts), expected)
    np.testing.assert_array_equal(ngrams().fit(tables(texts)[3], np.array(labels)[:, None]).predict_proba(texts), expected)
    # A table of several columns is ambiguous.
    with pytest.raises(TypeError, match="whole DataFrame: name one of its columns"):
        fitted.predict(pandas.DataFrame({"a": texts, "b": texts}))
    texts, numbers = rows_of_numbers()
    regressor = chumoku.TextRegressor(model="ngrams", progress=None)
    expected = regressor.fit(texts, numbers).predict(texts[:9])
    np.testing.assert_array_equal(regressor.fit(tables(texts)[0], np.array(numbers)[:, None]).predict(np.array(texts[:9])[:, None]), expected)


def test_log_probabilities(fitted):
    texts = rows(20)[0]
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(texts)), fitted.predict_proba(texts), rtol=1e-6)


def test_number_of_features(fitted):
    assert fitted.n_features_in_ == 1 and not hasattr(ngrams(), "n_features_in_")
    pandas = pytest.importorskip("pandas")
    texts, labels = rows()
    table = pandas.DataFrame({"text": texts, "price": range(len(texts))})
    assert ngrams(columns=["price"]).fit(table, labels).n_features_in_ == 2
    assert ngrams().fit([(text, "a") for text in texts], labels).n_features_in_ == 2
    assert chumoku.Embedder("nowhere").n_features_in_ == 1


def test_sample_weights_in_scores(fitted):
    texts, labels = rows(40)
    wrong = ["no" if label == "yes" else "yes" for label in labels[:10]] + labels[10:]
    weights = np.linspace(0, 3, 40)
    right = fitted.predict(texts) == np.array(wrong)
    assert fitted.score(texts, wrong, sample_weight=weights) == pytest.approx(np.average(right, weights=weights))
    assert fitted.score(texts, wrong) == pytest.approx(right.mean())
    for given in ([1.0], np.ones((40, 2)), -np.ones(40), np.zeros(40), np.full(40, np.nan)):
        with pytest.raises(ValueError, match="sample_weight: expected"):
            fitted.score(texts, wrong, sample_weight=given)
    metrics = pytest.importorskip("sklearn.metrics")
    texts, numbers = rows_of_numbers()
    regressor = chumoku.TextRegressor(model="ngrams", progress=None).fit(texts, numbers)
    weights = np.linspace(0, 3, len(texts))
    expected = metrics.r2_score(numbers, regressor.predict(texts), sample_weight=weights)
    assert regressor.score(texts, numbers, sample_weight=weights) == pytest.approx(expected)


@pytest.fixture
def embedder(monkeypatch):
    monkeypatch.setattr(chumoku.Embedder, "_model", types.SimpleNamespace(width=3))
    monkeypatch.setattr(chumoku.Embedder, "_vectors", lambda self, x, *_: np.arange(3 * len(x), dtype=np.float32).reshape(-1, 3))
    return chumoku.Embedder("a folder")


def test_vectors_as_tables(embedder):
    pandas = pytest.importorskip("pandas")
    sklearn = pytest.importorskip("sklearn")
    from sklearn.pipeline import make_pipeline

    texts = pandas.Series(["a", "b"], index=[5, 9])
    assert isinstance(embedder.transform(texts), np.ndarray)
    named = sklearn.base.clone(embedder.set_output(transform="pandas"))
    found = named.fit_transform(texts)
    assert found.columns.tolist() == ["embedder0", "embedder1", "embedder2"] and found.index.tolist() == [5, 9]
    assert isinstance(named.encode(texts), np.ndarray) and isinstance(named.set_output().transform(["a"]), pandas.DataFrame)
    assert isinstance(named.set_output(transform="default").transform(texts), np.ndarray)
    assert isinstance(make_pipeline(chumoku.Embedder("a folder")).set_output(transform="pandas").fit_transform(texts), pandas.DataFrame)
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(chumoku.Embedder("a folder").transform(["a"]), pandas.DataFrame)
    with pytest.raises(ValueError, match="transform: expected one of default, pandas, polars, got 'list'"):
        embedder.set_output(transform="list")


def test_metadata_routing():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import cross_validate
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    texts, labels = map(np.array, rows())
    weights = np.ones(len(texts))
    weights[::2] = 0
    with sklearn.config_context(enable_metadata_routing=True):
        model = ngrams().set_score_request(sample_weight=True).set_fit_request(sample_weight=False).set_predict_request(abstain=True)
        again = sklearn.base.clone(model)
        assert again.get_metadata_routing().score.requests == {"sample_weight": True}
        assert again.get_metadata_routing().predict.requests["abstain"] is True
        found = cross_validate(model, texts, labels, cv=2, params={"sample_weight": weights}, return_estimator=True, return_indices=True)
        for fold, (score, place) in enumerate(zip(found["test_score"], found["indices"]["test"])):
            expected = found["estimator"][fold].score(texts[place], labels[place], sample_weight=weights[place])
            assert score == expected
        pipeline = make_pipeline(FunctionTransformer(list), model).fit(texts, labels)
        assert pipeline.predict(texts[:3], abstain=0.6).dtype == object
    with pytest.raises(TypeError, match="fit: expected arguments among sample_weight, old, got 'weights'"):
        ngrams().set_fit_request(weights=True)


@pytest.mark.parametrize(
    "name, given, error",
    [
        ("epochs", -1, ValueError),
        ("epochs", 0, ValueError),
        ("epochs", 1.5, ValueError),
        ("epochs", True, ValueError),
        ("epochs", "2", ValueError),
        ("seed", -1, ValueError),
        ("seed", None, ValueError),
        ("seed", 2**64, ValueError),
        ("folds", 1, ValueError),
        ("lora", 0, ValueError),
        ("precision", 3, TypeError),
        ("tokens", 3, TypeError),
        ("model", None, TypeError),
        ("hierarchy", 1, TypeError),
        ("optimize", 1, TypeError),
        ("out", 5, TypeError),
        ("from_pretrained", 5, TypeError),
        ("out", "", ValueError),
        ("resume", True, ValueError),
        ("settings", ["words=2"], TypeError),
    ],
)
def test_invalid_parameters(name, given, error):
    with pytest.raises(error, match=f"^{name}: expected "):
        small(**{name: given}).fit(*rows())


@pytest.mark.parametrize("wrong", [{"folds": 1}, {"folds": 2.5}, {"seed": -1}, {"seed": 2**64}])
def test_invalid_parameters_of_doctor(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: expected a whole number from "):
        chumoku.doctor(*rows(), **wrong)


def test_numpy_numbers_as_parameters():
    texts, labels = rows()
    expected = small(seed=3, epochs=1).fit(texts, labels).predict_proba(texts[:4])
    found = small(seed=np.int64(3), epochs=np.int32(1)).fit(texts, labels).predict_proba(texts[:4])
    np.testing.assert_array_equal(found, expected)


def test_messages_name_parameters_instead_of_flags(tmp_path):
    """Library messages name flags of the command."""
    texts, labels = rows()
    regressor, tagger = chumoku.TextRegressor(model="ngrams", progress=None), chumoku.TextTagger(progress=None)
    wrong = [
        (ngrams(), ["one"] * len(texts), "found only .one. .*Give another y"),
        (ngrams(hierarchy="/"), [f"a//b{i % 2}" for i in range(len(texts))], 'or give hierarchy="none" if'),
        (ngrams(tune=2, folds=2), labels, "^tune: cannot be combined with folds; .* given with settings$"),
        (ngrams(settings="layers=1"), labels, "^settings layers: an n-gram model has no network"),
        (ngrams(from_pretrained="nowhere"), labels, "^from_pretrained: expected a model with a network"),
        (regressor, [i % 2 for i in range(len(texts))], "train a TextClassifier$"),
        (tagger, [[] for _ in texts], "found none in 160 texts: give them as y$"),
    ]
    for model, y, expected in wrong:
        with pytest.raises(ValueError, match=expected) as raised:
            model.fit(texts, y)
        assert "--" not in str(raised.value)


def test_lone_surrogates_are_rejected(fitted, monkeypatch):
    texts, labels = rows(40)
    bad = [*texts[:2], "\ud800", *texts[3:]]
    number, tagger = chumoku.TextRegressor(model="ngrams", progress=None), chumoku.TextTagger(progress=None)
    monkeypatch.setattr(chumoku.Embedder, "_model", types.SimpleNamespace(width=3, prompts=[]))
    calls = [
        lambda: fitted.predict(bad),
        lambda: fitted.score(bad, labels),
        lambda: ngrams().fit(list(zip(texts, bad)), labels),
        lambda: number.fit(bad, range(40)),
        lambda: tagger.fit(bad, [[]] * 40),
        lambda: chumoku.Translator().fit(texts, bad),
        lambda: chumoku.LanguageModel().fit(bad),
        lambda: chumoku.LanguageModel().evaluate(bad),
        lambda: chumoku.Embedder("nowhere").transform(bad),
        lambda: chumoku.doctor(bad, labels),
        lambda: chumoku.doctor(texts, labels, unlabelled=bad),
        lambda: ngrams(columns=["x"]).fit({"text": texts, "x": bad}, labels),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="^row 2(, .*)?: expected a text in Unicode, got a lone surrogate"):
            call()
    with pytest.raises(ValueError, match="^row 2: expected a label in Unicode, got a lone surrogate"):
        chumoku.doctor(texts, bad)
    for call in (lambda: fitted.explain("\ud800"), lambda: chumoku.LanguageModel().explain("\ud800"), lambda: chumoku.LanguageModel().generate("\ud800")):
        with pytest.raises(ValueError, match=": expected a text in Unicode, got a lone surrogate"):
            call()


def test_messages_count_rows_from_zero(tmp_path):
    texts, numbers = [f"Text number {i} of them." for i in range(40)], [float(i % 3) for i in range(39)] + [1e300]
    wish = dict(model="ngrams", progress=None)
    with pytest.raises(ValueError, match=r"^fit\(X, y\): row 39: "):
        chumoku.TextRegressor(**wish).fit(texts, numbers)
    chumoku.TextRegressor(**wish, out=tmp_path).fit(texts, [*numbers[:39], 1.0])
    again = chumoku.TextRegressor(**wish, from_pretrained=tmp_path)
    with pytest.raises(ValueError, match="^old: row 39: "):
        again.fit([text + " New." for text in texts], [*numbers[:39], 1.0], old=(texts, numbers))
    with pytest.raises(ValueError, match=r"^fit\(X, y\): row 39: "):
        again.fit([text + " New." for text in texts], numbers, old=(texts, [*numbers[:39], 1.0]))
