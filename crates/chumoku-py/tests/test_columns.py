"""Feature columns, tuning, cross-validation and thresholds from Python match the command."""

import csv
import datetime
import filecmp
import json
import pickle

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_models import command, needs_command  # noqa: E402

SHOPS = ["Ginza", "Ueno", "Kanda"]


def meals(n=120):
    """The class depends on the price and the shop, not on the text."""
    random = np.random.default_rng(0)
    table = {
        "text": [f"The {('soup', 'fish', 'room')[i % 3]} was {('good', 'cold')[i // 3 % 2]}, number {i}." for i in range(n)],
        "price": [None if i == 5 else int(x) for i, x in enumerate(random.integers(100, 9000, n))],
        "shop": [None if i == 3 else SHOPS[x] for i, x in enumerate(random.integers(0, 3, n))],
        "day": [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(n)],
    }
    labels = ["dear" if (price or 0) > 4000 or shop == "Kanda" else "fair" for price, shop in zip(table["price"], table["shop"])]
    return table, labels


def ngrams(**parameters):
    return chumoku.TextClassifier(model="ngrams", progress=None, **parameters)


@pytest.fixture(scope="module")
def fitted():
    return ngrams(columns=["price", "shop", "day"]).fit(*meals())


@needs_command
@pytest.mark.parametrize("model", ["ngrams", "transformer"])
def test_the_model_matches_the_command(tmp_path, model):
    table, labels = meals()
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([(*table, "label"), *zip(*table.values(), labels)])
    epochs = {} if model == "ngrams" else {"epochs": 1}
    words = [word for name, x in epochs.items() for word in (f"--{name}", x)]
    asked = ("--columns", "price,shop:category,day", "--label", "label", "--model", model, "--threads", 2)
    command("train", tmp_path / "rows.csv", *asked, *words, "--out", tmp_path / "theirs")
    ours = chumoku.TextClassifier(model=model, columns=["price", "shop:category", "day"], out=tmp_path / "ours", progress=None, **epochs)
    ours.fit(table, labels)
    for name in ("model.safetensors", "config.json"):
        assert filecmp.cmp(tmp_path / "theirs" / name, tmp_path / "ours" / name, shallow=False), name
    told = command("predict", tmp_path / "theirs", "--input", tmp_path / "rows.csv", "--json").splitlines()
    assert [json.loads(line)["label"] for line in told] == ours.predict(table).tolist()


def test_feature_columns_decide_where_the_text_cannot(fitted):
    table, labels = meals()
    new = [text.replace("number", "x") for text in table["text"]]
    alone = ngrams().fit([text.partition(",")[0] for text in table["text"]], labels)
    assert fitted.score({**table, "text": new}, labels) > 0.9 > 0.8 > alone.score(new, labels)
    row = {name: column[0] for name, column in table.items()}
    found = fitted.explain(row)
    assert [each["name"] for each in found.data["columns"]] == ["price", "shop", "day"] and found.data["columns"][0]["effect"] != 0
    assert fitted.predict({name: column[:0] for name, column in table.items()}).shape == (0,)
    with pytest.warns(UserWarning, match="column “price”: 2 values are not plain numbers, such as “cheap”") as said:
        fitted.predict({**table, "price": ["cheap", "dear"] + list(table["price"][2:])})
    assert [warning.filename for warning in said] == [__file__]
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(table), fitted.predict_proba(table))
    try:
        given = fitted.predict(table, abstain=0.6)
    except ValueError as error:
        assert "validation rows do not suffice" in str(error)
    else:
        assert set(given) <= {"dear", "fair", None}


def test_tables_of_many_kinds(fitted, tmp_path):
    pandas = pytest.importorskip("pandas")
    table, labels = meals()
    frame = pandas.DataFrame(table)
    expected = fitted.predict_proba(table)
    np.testing.assert_array_equal(fitted.predict_proba(frame.astype({"price": "Int64"})), expected)
    # Numbers with a zero fraction, and times at midnight, are equivalent.
    np.testing.assert_array_equal(fitted.predict_proba(frame.assign(day=pandas.to_datetime(frame.day))), expected)
    times = {**table, "day": np.array(table["day"], "datetime64[ns]")}
    np.testing.assert_array_equal(fitted.predict_proba(times), expected)
    assert fitted.explain(frame.iloc[0]).label == fitted.predict(frame)[0]
    np.testing.assert_array_equal(fitted.predict_proba(frame.assign(label=labels)), expected)
    fitted.save(tmp_path / "model")
    loaded = chumoku.TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(frame), expected)
    # The text column may have another name.
    other = ngrams(columns=["price", "shop", "day"], text="said").fit(frame.rename(columns={"text": "said"}).assign(note="x"), labels)
    np.testing.assert_array_equal(other.predict_proba(frame.rename(columns={"text": "said"})), expected)
    sklearn = pytest.importorskip("sklearn.model_selection")
    found = sklearn.cross_val_predict(ngrams(columns=["price", "shop"], text="text"), frame, labels, cv=2)
    assert np.mean(found == np.asarray(labels)) > 0.8


def test_regression_labels_and_pairs_with_columns():
    table, labels = meals(60)
    two = {"first": table["text"], "second": table["text"][::-1], "price": table["price"]}
    model = ngrams(columns=["price"], text=("first", "second")).fit(two, labels)
    assert set(model.predict(two)) == {"dear", "fair"}
    assert model.explain({name: column[0] for name, column in two.items()}).data["columns"][0]["name"] == "price"
    prices = [price or 0 for price in table["price"]]
    regressor = chumoku.TextRegressor(epochs=1, columns=["price"], text="text", progress=None).fit(table, prices)
    assert np.corrcoef(regressor.predict(table), prices)[0, 1] > 0.6
    several = chumoku.TextClassifier(epochs=1, columns=["price"], text="text", progress=None).fit(table, [[label] for label in labels])
    assert len(several.predict(table)) == 60


def test_invalid_tables_are_reported(fitted):
    table, labels = meals(40)
    without = {name: column for name, column in table.items() if name != "shop"}
    for work, error, match in (
        (lambda: ngrams(columns=["price"]).fit(table["text"], labels), TypeError, "expected a table .* got list"),
        (lambda: ngrams(columns="price").fit(table, labels), TypeError, "expected a list of names"),
        (lambda: ngrams(columns=["price", "price:number"]).fit(table, labels), ValueError, "named twice"),
        (lambda: ngrams(columns=["cost"]).fit(table, labels), ValueError, "columns: the table has no column 'cost'; it has text, price"),
        (lambda: ngrams(columns=["shop"], text="body").fit(table, labels), ValueError, "text: the table has no column 'body'"),
        (lambda: ngrams(columns=["day"]).fit({"a": ["x"] * 9, "b": ["y"] * 9, "day": [1] * 9}, [1] * 9), ValueError, "other than columns=.* a, b"),
        (lambda: ngrams(columns=["label"]).fit({"text": table["text"], "label": labels}, labels), ValueError, "other than 'label'"),
        (lambda: ngrams(columns=["day"]).fit({"text": table["text"], "day": [1]}, labels), ValueError, "column 'day'"),
        (lambda: ngrams(columns=["price"]).fit({"text": [3] * 40, "price": table["price"]}, labels), TypeError, "row 0, column 'text'"),
        (lambda: fitted.predict(["a text"]), TypeError, "expected a table"),
        (lambda: fitted.predict(without), ValueError, "no column 'shop'"),
        (lambda: fitted.explain("a text"), TypeError, "expected a table"),
        (lambda: ngrams().fit(table, labels), TypeError, "name one of its columns"),
    ):
        with pytest.raises(error, match=match):
            work()


@needs_command
def test_tuning_by_trials(tmp_path):
    table, labels = meals()
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(table["text"], labels)])
    command("train", tmp_path / "rows.csv", "--model", "ngrams", "--tune", 3, "--out", tmp_path / "theirs", "--threads", 2)
    ours = ngrams(tune=3, out=tmp_path / "ours").fit(table["text"], labels)
    assert filecmp.cmp(tmp_path / "theirs" / "model.safetensors", tmp_path / "ours" / "model.safetensors", shallow=False)
    assert ours.metrics_["tuning"]["trials"] == 3
    command("train", tmp_path / "rows.csv", "--model", "ngrams", "--settings", "words=1,relevance=1", "--folds", 2, "--out",
            tmp_path / "set", "--threads", 2)  # fmt: skip
    for settings in ("words=1,relevance=1", {"words": 1, "relevance": 1}):
        ours = ngrams(settings=settings, folds=2).fit(table["text"], labels)
        ours.save(tmp_path / f"set by {type(settings).__name__}")
        assert filecmp.cmp(tmp_path / "set/model.safetensors", tmp_path / f"set by {type(settings).__name__}/model.safetensors", shallow=False)
    assert ours.metrics_["folds"]


def test_tuning_by_time():
    table, labels = meals(80)
    model = ngrams(tune="1s").fit(table["text"], labels)
    assert model.metrics_["tuning"]["trials"] >= 1
    for parameters, match in (
        ({"tune": "soon"}, 'expected a time such as "30s"'), ({"tune": 0}, "a number of trials from 1"), ({"tune": True}, "got True"),
        ({"tune": 2, "folds": 2}, "cannot be combined with folds"), ({"folds": 1}, "from 2 on"), ({"settings": "colour=red"}, "settings: .*colour"),
        ({"settings": {"layers": 2}}, "layers"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            ngrams(**parameters).fit(table["text"], labels)
    with pytest.raises(ValueError, match="one class"):
        chumoku.TextClassifier(tune=2, progress=None).fit(table["text"], [[label] for label in labels])


def test_thresholds(fitted):
    table, labels = meals()
    p = fitted.predict_proba(table)[:, 0]
    for threshold in (0.0, 0.3, 0.99, 1.0):
        found = fitted.predict(table, threshold={"dear": threshold})
        assert found.tolist() == ["dear" if x >= np.float32(threshold) else "fair" for x in p]
    precise = fitted.predict(table, precision_at_least={"dear": 0.9})
    least = fitted._model.precise(0, 0.9)
    assert precise.tolist() == ["dear" if x >= np.float32(least) else "fair" for x in p]
    for arguments, error, match in (
        ({"threshold": 0.5}, TypeError, "expected a class to answer from there on"),
        ({"threshold": {"cheap": 0.5}}, ValueError, "no class 'cheap'; expected one of 'dear', 'fair'"),
        ({"threshold": {"dear": 2}}, ValueError, "a share from 0 to 1, got 2"),
        ({"threshold": {"dear": 0.1, "fair": 0.1}}, ValueError, "every class has a threshold"),
        ({"threshold": {"dear": 0.1}, "precision_at_least": {"dear": 0.5}}, ValueError, "has a threshold already"),
        ({"threshold": {"dear": 0.1}, "abstain": 0.9}, ValueError, "cannot be combined"),
    ):
        with pytest.raises(error, match=match):
            fitted.predict(table, **arguments)
    # For multi-label models, one number applies to all labels.
    several = chumoku.TextClassifier(epochs=1, progress=None).fit(table["text"], [[label, "a"] for label in labels])
    q = several.predict_proba(table["text"])
    found = several.predict(table["text"], threshold=0.4)
    assert [set(row) for row in found] == [{c for c, x in zip(several.classes_, row) if x >= np.float32(0.4)} for row in q]
    some = several.predict(table["text"], threshold={"a": 1.0})
    assert not any("a" in row for row, x in zip(some, q[:, list(several.classes_).index("a")]) if x < 1)
