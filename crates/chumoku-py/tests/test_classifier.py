"""`chumoku.TextClassifier`: training as in the command, and scikit-learn's API."""

import csv
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOOD = ["good", "great", "fine", "lovely", "superb", "nice", "warm", "fresh"]
BAD = ["bad", "awful", "poor", "nasty", "dreadful", "cold", "stale", "dull"]
THINGS = ["soup", "room", "film", "book", "phone", "seat", "song", "staff", "beer", "view"]


def rows(n=160):
    """An easy data set: one word reveals the class."""
    texts, labels = [], []
    for i in range(n):
        words, label = (GOOD, "yes") if i % 2 else (BAD, "no")
        texts.append(f"The {THINGS[i // 3 % 10]} was {words[i // 2 % 8]}, number {i}.")
        labels.append(label)
    return texts, labels


def small(**parameters):
    return chumoku.TextClassifier(**({"epochs": 2, "progress": None} | parameters))


@pytest.fixture(scope="module")
def fitted():
    return small(epochs=4).fit(*rows())


def test_classes_are_learned(fitted):
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.predict(["The soup was great.", "The film was dreadful."]).tolist() == ["yes", "no"]
    p = fitted.predict_proba(rows(30)[0])
    assert p.shape == (30, 2) and p.dtype == np.float32
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
    assert fitted.score(*rows(40)) > 0.9
    assert fitted.predict([]).shape == (0,) and fitted.predict_proba([]).shape == (0, 2)
    assert isinstance(fitted.metrics_, dict)
    # One text or many give the same result.
    np.testing.assert_array_equal(fitted.predict_proba(rows(5)[0])[3], fitted.predict_proba([rows(5)[0][3]])[0])


def test_the_model_matches_the_command(tmp_path):
    program = ROOT / "target" / "release" / "chumoku"
    program = pathlib.Path(os.environ.get("CHUMOKU_PROGRAM", program))
    if not program.exists():
        pytest.skip(f"no {program}")
    texts, labels = rows()
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(texts, labels))
    command = [str(program), "train", "rows.csv", "--out", "model", "--epochs", "2", "--seed", "5"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    ours = small(seed=5, out=tmp_path / "ours").fit(texts, labels)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes(), name
    theirs = chumoku.TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(theirs.predict_proba(texts), ours.predict_proba(texts))


@pytest.mark.parametrize(
    "kind",
    [
        lambda labels: [10 if label == "yes" else 9 for label in labels],  # "10" comes before "9"
        lambda labels: np.array([label == "yes" for label in labels]),
        lambda labels: np.array(labels),
        lambda labels: np.array(labels, object),
        lambda labels: np.array([1.5 if label == "yes" else -2.0 for label in labels]),
    ],
)
def test_labels_of_every_type(kind):
    texts, labels = rows()
    labels = kind(labels)
    model = small(epochs=4).fit(texts, labels)
    assert model.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
    assert model.score(texts, labels) > 0.9
    assert model.predict(texts[:1])[0] in set(np.asarray(labels).tolist())
    again = pickle.loads(pickle.dumps(model))
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))


def test_columns_of_table_libraries():
    texts, labels = rows()
    expected = small().fit(texts, labels).predict_proba(texts[:5])
    tables = []
    for library, make in (
        ("pandas", lambda pd, x: pd.Series(x)),
        ("polars", lambda pl, x: pl.Series(x)),
        ("pyarrow", lambda pa, x: pa.array(x)),
        ("datasets", lambda ds, x: ds.Dataset.from_dict({"x": x})["x"]),
    ):
        try:
            tables.append((__import__(library), make))
        except ImportError:
            continue
    tables.append((np, lambda np, x: np.array(x)))
    tables.append((None, lambda _, x: tuple(x)))
    for library, make in tables:
        found = small().fit(make(library, texts), make(library, labels)).predict_proba(make(library, texts[:5]))
        np.testing.assert_array_equal(found, expected)


def test_saving_and_loading(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = chumoku.TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(rows(9)[0]), fitted.predict_proba(rows(9)[0]))
    assert again.classes_.tolist() == ["no", "yes"] and again.metrics_ == fitted.metrics_
    again.save(tmp_path / "model")
    # Saving may replace the folder of a run, with its log and checkpoints.
    run = small(out=tmp_path / "run").fit(*rows())
    run.save(tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="thesis.txt"):
        fitted.save(tmp_path / "other")
    with pytest.raises((ValueError, OSError), match="nowhere"):
        chumoku.TextClassifier.load(tmp_path / "nowhere")


def test_errors_name_the_problem(fitted):
    texts, labels = rows()
    with pytest.raises(TypeError, match="got one str: put it into a list"):
        fitted.predict("The soup was great.")
    with pytest.raises(TypeError, match="row 1: expected a text, got nothing"):
        fitted.predict(["fine", None])
    with pytest.raises(TypeError, match="row 0: expected a text, got nothing"):
        fitted.predict([float("nan")])
    with pytest.raises(TypeError, match="row 0: expected a text, got int 3"):
        fitted.predict([3])
    with pytest.raises(ValueError, match="a label for each of 160 texts, got 159"):
        small().fit(texts, labels[1:])
    with pytest.raises(ValueError, match="row 2: expected a label"):
        small().fit(texts, labels[:2] + [None] + labels[3:])
    with pytest.raises(ValueError, match="row 1: expected some characters, got an empty text"):
        small().fit([texts[0], " \n", *texts[2:]], labels)
    with pytest.raises(ValueError, match="row 3: expected some characters, got an empty label"):
        small().fit(texts, [*labels[:3], "", *labels[4:]])
    with pytest.raises(ValueError, match="row 0: expected a text in Unicode, got a lone surrogate"):
        small().fit(["\ud800", *texts[1:]], labels)
    with pytest.raises(ValueError) as one_class:
        small().fit(texts, ["the same"] * len(texts))
    assert "rows.jsonl" not in str(one_class.value) and "fit(X, y)" in str(one_class.value), str(one_class.value)
    with pytest.raises(ValueError, match="the same string form"):
        small().fit(texts, [1, "1"] * 80)
    with pytest.raises(ValueError):
        small().fit(texts[:3], labels[:3])
    with pytest.raises(ValueError):
        small().fit(texts, ["the same"] * len(texts))
    with pytest.raises(ValueError, match="precision: expected one of"):
        small(precision="best").fit(texts, labels)
    with pytest.raises(ValueError, match="no parameter 'epoch'; it has model, epochs"):
        small().set_params(epoch=3)
    with pytest.raises(chumoku.NotFittedError, match="has not been fitted"):
        pickle.loads(pickle.dumps(small())).predict(texts)


def test_a_failed_fit_leaves_no_old_model():
    model = small().fit(*rows())
    with pytest.raises(ValueError):
        model.fit(["a"], ["b"])
    with pytest.raises(Exception, match="has not been fitted"):
        model.predict(["a"])


def test_progress():
    events = []
    small(progress=events.append).fit(*rows())
    kinds = [event["event"] for event in events]
    assert "ready" in kinds and kinds.count("evaluated") == 2 and "message" in kinds
    assert 0 <= next(e for e in events if e["event"] == "evaluated")["accuracy"] <= 1

    def fails(event):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        small(progress=fails).fit(*rows())


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_an_interrupted_fit_saves_and_can_be_resumed(tmp_path):
    code = textwrap.dedent("""
        import json, os, signal, sys, chumoku
        texts, labels = json.load(open("rows.json"))
        def progress(event):
            if event["event"] == "evaluated" and event["epoch"] == 2:
                os.kill(os.getpid(), signal.SIGINT)
        try:
            chumoku.TextClassifier(epochs=60, out="model", progress=progress).fit(texts, labels)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    (tmp_path / "rows.json").write_text(json.dumps(rows()))
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.stdout == "interrupted\n", run.stderr
    # The best model so far can be loaded.
    assert chumoku.TextClassifier.load(tmp_path / "model").classes_.tolist() == ["no", "yes"]
    # A resumed run ends with the same model as an uninterrupted one.
    events = []
    small(epochs=60, out=tmp_path / "model", resume=True, progress=events.append).fit(*rows())
    assert all(event["done"] > 0 for event in events if event["event"] == "ready")
    small(epochs=60, out=tmp_path / "whole").fit(*rows())
    whole, continued = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "model"))
    assert whole == continued


def test_notebook_summary(fitted):
    page = fitted._repr_html_()
    assert page.startswith("<div>") and "no, yes" in page and "<script" not in page and len(page) < 100_000
    assert repr(small(seed=3)) == "TextClassifier(epochs=2, seed=3, progress=None)"


def test_files_that_were_read_are_never_replaced(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    model = chumoku.TextClassifier.load(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    found = model.explain("The soup was great, number 3.")
    os.link(tmp_path / "model" / "model.safetensors", tmp_path / "hard.html")
    for file in (tmp_path / "model" / "config.json", tmp_path / "hard.html"):
        with pytest.raises(ValueError, match="this is an input file"):
            found.save(file)
    with pytest.raises(ValueError, match="this is an input file"):
        model.export(tmp_path / "model" / "tokenizer.json")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    found.save(tmp_path / "model" / "page.html")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        found.save(tmp_path / "nowhere" / "page.html")


def test_explaining(fitted, tmp_path):
    found = fitted.explain("The soup was great, number 3.")
    p = fitted.predict_proba(["The soup was great, number 3."])[0]
    assert found.label == fitted.classes_[p.argmax()] == "yes"
    assert found.probabilities == pytest.approx(dict(zip(fitted.classes_.tolist(), p.tolist())), abs=1e-6)
    assert len(found.words) == len(found.effects) and "".join(found.words).count("great") == 1
    effects = dict(zip(found.words, found.effects))
    assert max(effects, key=effects.get).startswith("great")
    layers, heads, n, m = found.attention.shape
    assert n == m == len(found.words) and layers == found.data["layers"] and heads == found.data["heads"]
    np.testing.assert_allclose(found.attention.sum(-1), 1, atol=1e-3)
    found.save(tmp_path / "page.html", lang="ja")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!") and 'lang="ja"' in page and [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(ValueError, match="lang: expected"):
        found.page("fr")
    with pytest.raises(TypeError, match="one text, got list"):
        fitted.explain(["a"])
    small_page = found._repr_html_()
    assert "great" in small_page and "<script" not in small_page and len(small_page) < 100_000
    odd = fitted.explain("<b>great</b> & \"warm\"")._repr_html_()
    assert "<b>great" not in odd and "&lt;" in odd


def test_patching(fitted):
    text, other = "The soup was great, number 3.", "The soup was awful, number 3."
    try:
        found = fitted.explain(text, patch=other, lens=True)
    except ValueError as problem:
        # The two words may have different numbers of tokens. The error then proposes an alignment.
        align = str(problem).split('align="')[1].split('"')[0]
        found = fitted.explain(text, patch=other, align=align, lens=True)
    layers, heads, count = found.data["layers"], found.data["heads"], len(found.patching["aligned"])
    assert len(found.patching["residual"]) == (layers + 1) * count and len(found.patching["heads"]) == layers * heads
    assert len(found.lens["depths"]) == layers + 1 and found.patching["other"] == other
    assert '"patching":{' in found.page() and fitted.explain(text, lens=False).lens is None
    for wrong, words in (
        ({"align": "1:1"}, "only with patch"),
        ({"patch": other, "align": "1-2:1"}, "align: expected"),
        ({"patch": text}, "answers both texts alike"),
        ({"patch": " "}, "got an empty one"),
    ):
        with pytest.raises(ValueError, match=words):
            fitted.explain(text, **wrong)
    with pytest.raises(TypeError, match="one text, got list"):
        fitted.explain(text, patch=[other])


# ---- scikit-learn ---------------------------------------------------------------------------------------------------


@pytest.fixture
def sklearn():
    return pytest.importorskip("sklearn")


def test_clone_and_parameters(sklearn):
    from sklearn.base import clone, is_classifier

    model = small(seed=7)
    again = clone(model.fit(*rows()))
    assert again.get_params() == model.get_params() and is_classifier(again)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        again.predict(["a"])
    sklearn.utils.validation.check_is_fitted(model)


def test_pipelines_searches_and_calibration(sklearn):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    texts, labels = map(np.array, rows())
    lower = FunctionTransformer(lambda x: [text.lower() for text in x])
    assert make_pipeline(lower, small(epochs=4)).fit(texts, labels).score(texts, labels) > 0.9
    search = GridSearchCV(small(), {"epochs": [1, 4], "seed": [1]}, cv=2).fit(texts, labels)
    assert search.best_params_["epochs"] in (1, 4) and search.predict(texts[:2]).shape == (2,)
    assert len(cross_val_score(small(), texts, labels, cv=2)) == 2
    calibrated = CalibratedClassifierCV(small(epochs=4), cv=2).fit(texts, labels)
    assert calibrated.predict_proba(texts).shape == (160, 2)


def test_two_processes_of_joblib(sklearn):
    from sklearn.model_selection import cross_val_predict

    texts, labels = map(np.array, rows())
    alone = cross_val_predict(small(), texts, labels, cv=2, method="predict_proba")
    np.testing.assert_array_equal(cross_val_predict(small(), texts, labels, cv=2, n_jobs=2, method="predict_proba"), alone)


class OfNumbers(chumoku.TextClassifier):
    """Converts the numeric rows of scikit-learn's checks to texts."""

    def texts(self, X, reset):
        from sklearn.utils.validation import validate_data

        X = validate_data(self, X, reset=reset)
        words = np.clip(np.round(2 * X), -20, 20).astype(int)
        return [" ".join(f"column{j}is{x}" for j, x in enumerate(row)) for row in words]

    def fit(self, X, y):
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import column_or_1d, validate_data

        X, y = validate_data(self, X, y, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return super().fit(self.texts(X, True), y)

    def predict_proba(self, X):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return super().predict_proba(self.texts(X, False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.string, tags.input_tags.two_d_array = False, False, True
        return tags


def test_scikit_learn_estimator_checks():
    pytest.importorskip("sklearn")
    from sklearn.utils.estimator_checks import check_estimator

    for model in (OfNumbers(model="ngrams", progress=None), OfNumbers(epochs=1, progress=None)):
        with pytest.warns(UserWarning, match="does not inherit"):
            found = check_estimator(model, on_fail=None, on_skip=None)
        failed = [(each["check_name"], each["exception"]) for each in found if each["status"] not in ("passed", "skipped")]
        assert not failed and len([each for each in found if each["status"] == "passed"]) > 40


def test_ngrams_only(tmp_path):
    model = small(model="ngrams", epochs=None).fit(*rows())
    assert model.predict(["The soup was great."]).tolist() == ["yes"]
    found = model.explain("The soup was great.")
    assert found.data["ngrams"] and found.attention.size == 0
    with pytest.raises(ValueError, match="no attention"):
        found.page()
    model.save(tmp_path / "model")
    again = chumoku.TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(rows(9)[0]), model.predict_proba(rows(9)[0]))


def test_networks_and_tokens():
    for parameters in ({"model": "gru", "epochs": 1}, {"tokens": "characters", "epochs": 1}, {"tokens": "words", "epochs": 1}):
        assert small(**parameters).fit(*rows()).predict_proba(rows(4)[0]).shape == (4, 2)
    for parameters, match in [
        ({"model": "perceptron"}, "model: expected one of transformer, rnn, lstm, gru, ngrams"),
        ({"tokens": "letters"}, "tokens: expected one of subwords, characters, words"),
        ({"freeze": "half"}, "freeze: expected one of none, embeddings, all, a number of layers"),
        ({"freeze": 2}, "from"),
    ]:
        with pytest.raises(ValueError, match=match):
            small(**parameters).fit(*rows())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_can_predict():
    program = """
        import chumoku, os, signal, threading
        texts = [f"The {'soup' if i % 3 else 'room'} was {'good' if i % 2 else 'bad'}, number {i}." for i in range(160)]
        model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, [i % 2 for i in range(160)])
        expected = model.predict_proba(texts).tobytes()
        over = threading.Event()

        def use():
            while not over.is_set():
                assert model.predict_proba(texts).tobytes() == expected

        threads = [threading.Thread(target=use) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            child = os.fork()
            if child == 0:
                signal.alarm(120)
                os._exit(0 if model.predict_proba(texts).tobytes() == expected else 1)
            status = os.waitpid(child, 0)[1]
            assert status == 0, f"a child ended with {status}"
        over.set()
        for thread in threads:
            thread.join()
        print("done")
    """
    words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert found.stdout.split() == ["done"], found.stderr


def tagged(n=240):
    """Texts with zero, one or two labels, each revealed by a word."""
    words = {"food": "soup", "staff": "waiter", "price": "bill", "noise": "music"}
    sets = [[], ["food"], ["staff", "price"], ["noise"], ["food", "noise"], ["price"], ["staff"]]
    labels = [sets[i % 7] for i in range(n)]
    return [f"Visit {i}, a long day: " + " ".join(words[label] for label in each) for i, each in enumerate(labels)], labels


def test_multi_label_classification(tmp_path):
    texts, labels = tagged()
    model = small(epochs=3).fit(texts, labels)
    assert model.classes_.tolist() == ["food", "noise", "price", "staff"]
    assert [sorted(each) for each in model.predict(texts[:7])] == [sorted(each) for each in labels[:7]]
    p = model.predict_proba(texts[:7])
    assert p.shape == (7, 4) and p[4].sum() > 1.2 and p[0].sum() < 0.8
    assert model.score(texts, labels) > 0.9 and "micro_f1" in model.metrics_
    model.save(tmp_path / "model")
    again = chumoku.TextClassifier.load(tmp_path / "model")
    assert again.predict(texts[:7]) == model.predict(texts[:7]) == pickle.loads(pickle.dumps(model)).predict(texts[:7])
    assert model.explain(texts[2]).data["exclusive"] is False
    # scikit-learn's indicator arrays.
    indicator = np.array([[int(name in each) for name in ("food", "noise", "price", "staff")] for each in labels])
    other = small(epochs=3).fit(texts, indicator)
    found = other.predict(texts)
    assert found.shape == indicator.shape and found.dtype.kind == "i" and (found == indicator).mean() > 0.95
    np.testing.assert_allclose(other.predict_proba(texts[:5]), p[:5], atol=1e-6)
    with pytest.raises(ValueError, match="row 0: expected 0 or 1 .* got 0.5"):
        other.score(texts, indicator / 2 + 0.5 * (indicator == 0))
    for y, error, match in [
        ([["a"], "b", ["c"], ["d"]], TypeError, "row 1: expected a list of labels"),
        ([["a"], [None], ["c"], ["d"]], ValueError, "row 1: expected a label, got nothing"),
        ([["a"], [" "], ["c"], ["d"]], ValueError, "row 1: .* empty label"),
    ]:
        with pytest.raises(error, match=match):
            small().fit(["one", "two", "three", "four"], y)
    assert small(model="ngrams").fit(texts, labels).score(texts, labels) > 0.9


def test_multi_label_model_matches_the_command(tmp_path):
    program = pathlib.Path(os.environ.get("CHUMOKU_PROGRAM", ROOT / "target" / "release" / "chumoku"))
    if not program.exists():
        pytest.skip("no command was built")
    texts, labels = tagged()
    lines = [json.dumps({"text": text, "labels": sorted(each)}) for text, each in zip(texts, labels)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    words = [program, "train", tmp_path / "rows.jsonl", "--epochs", "2", "--out", tmp_path / "model", "--threads", "2"]
    subprocess.run(words, check=True, capture_output=True)
    small(out=tmp_path / "ours").fit(texts, labels)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes(), name


def test_ambiguous_and_invalid_labels():
    texts, _ = rows(40)
    with pytest.raises(ValueError, match="row 3: expected a label, got nothing"):
        small().fit(texts, [0.0, 1.0, 1.0, float("nan")] * 10)
    # White space around labels is trimmed, as in the command.
    assert list(small(model="ngrams", epochs=None).fit(texts, ["a", " a", "b", "c"] * 10).classes_) == ["a", "b", "c"]
    model = small(model="ngrams", epochs=None).fit(texts, [i % 2 for i in range(40)])
    assert model.score(texts, [str(i % 2) for i in range(40)]) == 0, "a text is not the number that it spells"


def test_whole_tables_are_rejected_as_columns(fitted):
    pandas = pytest.importorskip("pandas")
    for x in (pandas.DataFrame({"text": ["good"], "more": ["bad"]}), {"text": ["good"], "more": ["bad"]}, np.array("good"), None):
        with pytest.raises(TypeError, match="expected a list or a column"):
            fitted.predict(x)


def test_explanations_pickle(fitted):
    for model in (fitted, small(model="ngrams", epochs=None).fit(*rows(60))):
        found = model.explain("The soup was great.")
        again = pickle.loads(pickle.dumps(found))
        assert again.data == found.data and again.effects == found.effects


def test_a_model_replaced_during_loading_is_never_mixed(tmp_path):
    """The reader has the configuration but not yet the weights when another model replaces the folder."""
    texts, labels = rows()
    renamed = ["b" if label == "no" else "a" for label in labels]
    for name, given in (("old", labels), ("new", renamed)):
        chumoku.TextClassifier(model="ngrams", progress=None, out=tmp_path / name).fit(texts, given)
    shutil.copytree(tmp_path / "old", tmp_path / "model")
    hold = tmp_path / "hold"
    hold.touch()
    read = textwrap.dedent(
        """
        import chumoku, json, sys
        model = chumoku.TextClassifier.load("model")
        json.dump([model.predict(["The soup was great."]).tolist(), model.metrics_["labels"]], sys.stdout)
        """
    )
    environment = os.environ | {"CHUMOKU_FAILPOINT": f"weights=hold:{hold}"}
    with subprocess.Popen([sys.executable, "-c", read], cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as reader:
        while not hold.stat().st_size:
            assert reader.poll() is None
            time.sleep(0.002)
        for name in ("model.safetensors", "metrics.json", "trained-on.bin", "README.md", "config.json"):
            shutil.copy(tmp_path / "new" / name, tmp_path / "copy")
            os.replace(tmp_path / "copy", tmp_path / "model" / name)
        hold.unlink()
        found = json.load(reader.stdout)
    assert found == [["a"], ["a", "b"]] and reader.returncode == 0


def test_indicators_are_zero_or_one(fitted):
    texts, labels = rows(40)
    indicator = np.array([[label == "yes", label == "no"] for label in labels])
    quick = lambda: small(model="ngrams", epochs=None)
    expected = quick().fit(texts, indicator).predict_proba(texts)
    for y in (indicator.astype(int), indicator.astype(float), indicator.astype(object)):
        np.testing.assert_array_equal(quick().fit(texts, y).predict_proba(texts), expected)
    for wrong in (0.2, float("nan"), 5, "yes", None):
        y = indicator.astype(object)
        y[3, 1] = wrong
        with pytest.raises(ValueError, match=f"^row 3: expected 0 or 1 .* got {wrong!r}"):
            quick().fit(texts, y)
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_matrix, sparse.coo_array):
        model = quick().fit(texts, kind(indicator.astype(int)))
        np.testing.assert_array_equal(model.predict_proba(texts), expected)
        assert model.score(texts, kind(indicator.astype(int))) == model.score(texts, indicator)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="whole DataFrame: name one of its columns, or give 0/1 columns as an array"):
        quick().fit(texts, pandas.DataFrame(indicator))


def test_saving_to_its_own_folder(tmp_path):
    for make in (lambda: small(model="ngrams", epochs=None, out=tmp_path).fit(*rows()), lambda: chumoku.TextClassifier.load(tmp_path)):
        model = make()
        model.save(os.path.relpath(tmp_path))
        assert pickle.loads(pickle.dumps(model)).classes_.tolist() == model.classes_.tolist()
        model.save(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="has changed since it was read"):
        model.save(tmp_path)
