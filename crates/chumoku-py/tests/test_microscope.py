"""`chumoku.trace`, `check` and `count`."""

import copy
import json
import os
import pathlib
import pickle
import zipfile

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


def example(rng=np.random.default_rng(0)):
    return {name: rng.standard_normal((n, 4)).astype(np.float32) for name, n in (("Q", 3), ("K", 5), ("V", 5))}


def test_a_trace_contains_the_numbers():
    x = example()
    found = chumoku.trace({"title": "Three queries", "inputs": x})
    scores = x["Q"].astype(np.float64) @ x["K"].astype(np.float64).T / 2
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(found["weights"], weights, rtol=1e-12)
    np.testing.assert_allclose(found["output"], weights @ x["V"].astype(np.float64), rtol=1e-12)
    ours = chumoku.attention(*(x[name][None, None] for name in "QKV"))[0, 0]
    np.testing.assert_allclose(found["output"], ours, atol=1e-5)
    assert found["weights"].dtype == np.float64 and "weights" in found.steps
    assert "weights" in found and "nothing" not in found and list(found) == found.steps and len(found) == len(found.steps)
    assert "Three queries" in str(found) and "Three queries" in found._repr_html_() and "Three queries" in repr(found)
    with pytest.raises(KeyError, match="the values are those of"):
        found["nothing"]


def test_a_backward_trace_contains_the_gradients():
    forward, found = chumoku.trace("review-loss"), chumoku.trace("review-loss", backward=True)
    assert found.steps == forward.steps and forward.gradients == [] and found.gradients[0] == "logits" and found.gradients[-1] == "X"
    np.testing.assert_array_equal(found["weights"], forward["weights"])

    def loss(w_class):
        logits = forward["pooled"] @ w_class + forward["b_class"]
        return np.log(np.exp(logits).sum()) - logits[0, list(forward["target"][0]).index(1)]

    w, step = forward["W_class"], 1e-6
    numeric = np.zeros_like(w)
    for at in np.ndindex(*w.shape):
        by = np.zeros_like(w)
        by[at] = step
        numeric[at] = (loss(w + by) - loss(w - by)) / (2 * step)
    np.testing.assert_allclose(found.gradient("W_class"), numeric, atol=1e-8)
    assert np.abs(numeric).max() > 0.01 and "gradients" in repr(found) and "gradients" not in repr(forward)
    copied = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copied.gradient("W_Q"), found.gradient("W_Q"))
    with pytest.raises(KeyError, match="backward=True"):
        forward.gradient("W_Q")
    with pytest.raises(KeyError, match="'target'; the gradients are those of logits"):
        found.gradient("target")
    with pytest.raises(ValueError, match="loss"):
        chumoku.trace("two-tokens", backward=True)


def test_a_pair_model_is_traced():
    rows = [(f"A dog runs on day {i}.", f"A dog {['runs', 'eats'][i % 2]}.") for i in range(80)]
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(rows, [i % 2 for i in range(80)])
    found = chumoku.trace(model=model, text=("A dog runs.", "A dog eats."))
    assert "[SEP]" in found.tokens
    expected = model.predict_proba([("A dog runs.", "A dog eats.")])
    assert found["probabilities"].shape[1] == expected.shape[1]
    with pytest.raises(ValueError, match="reads two texts"):
        chumoku.trace(model=model, text="A dog runs.")
    single = chumoku.TextClassifier(epochs=1, progress=None).fit([first for first, _ in rows], [i % 2 for i in range(80)])
    with pytest.raises(ValueError, match="reads one text"):
        chumoku.trace(model=single, text=("A dog runs.", "A dog eats."))


def test_masked_keys_are_infinite():
    x = example()
    found = chumoku.trace({"inputs": x, "options": {"mask": np.tri(3, 5, dtype=bool)}})
    assert np.isinf(np.concatenate([found[name].ravel() for name in found.steps])).any()
    assert found["weights"][0, 1:].max() == 0


def test_a_trace_is_saved(tmp_path):
    found = chumoku.trace({"inputs": example()})
    for suffix, start in [("html", b"<!doctype"), ("md", b""), ("tex", b""), ("txt", b""), ("json", b"{"), ("xlsx", b"PK")]:
        found.save(tmp_path / f"trace.{suffix}")
        written = (tmp_path / f"trace.{suffix}").read_bytes()
        assert written[:9].lower().startswith(start.lower()) and len(written) > 100, suffix
    assert json.loads((tmp_path / "trace.json").read_text())["steps"] == found.data["steps"]
    assert "xl/workbook.xml" in zipfile.ZipFile(tmp_path / "trace.xlsx").namelist()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    worked = (ROOT / "crates" / "chumoku-trace" / "worked" / "by-hand.json").read_bytes()
    (tmp_path / "example.json").write_bytes(worked)
    with pytest.raises(ValueError, match="this is an input file"):
        chumoku.trace(tmp_path / "example.json").save(tmp_path / "example.json")
    assert (tmp_path / "example.json").read_bytes() == worked
    with pytest.raises(ValueError, match="ends with one of .txt"):
        found.save(tmp_path / "trace.doc")
    assert "入力" in found.text("ja") and found.text("ja") != found.text()


def test_every_built_in_example():
    names = chumoku._chumoku.example_names()
    assert len(names) >= 5
    for name in names:
        try:
            found = chumoku.trace(name)
        except ValueError as error:
            assert "about sizes, not matrices" in str(error) and chumoku.check(name).steps
            continue
        assert found.steps and len(found._repr_html_()) < 200_000, name


def test_a_model_is_traced(tmp_path):
    texts = [f"The {'soup' if i % 3 else 'room'} was {'good' if i % 2 else 'bad'}, number {i}." for i in range(80)]
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, [i % 2 for i in range(80)])
    found = chumoku.trace(model=model, text="The soup was good.", layer=1, head=2)
    assert found.data["model"]["layer"] == 1 and found.data["model"]["head"] == 2 and "▁soup" in found.tokens
    np.testing.assert_allclose(found["weights"].sum(1), 1, atol=1e-9)
    whole, part = found["Q"], found["Q", 2]
    np.testing.assert_array_equal(part, whole[:, part.shape[1] : 2 * part.shape[1]])
    with pytest.raises(KeyError, match="'Q' of head 1"):
        found["Q", 1]
    model.save(tmp_path / "model")
    assert chumoku.trace(model=tmp_path / "model", text="The soup was good.", layer=1, head=2).steps == found.steps
    # The gradient of one class points away from that of the other.
    zero, one = (chumoku.trace(model=model, text="The soup was good.", target=name, backward=True) for name in ("0", "1"))
    assert zero.gradients and (zero.gradient("logits") * one.gradient("logits") < 0).all()
    assert chumoku.trace(model=model, text="The soup was good.", backward=True).data["loss"]["value"] > 0
    # If a quantity is shown in full and for a head, the full matrix is returned.
    back = chumoku.trace(model=model, text="The soup was good.", layer=1, head=2, backward=True)
    for name in "QKV":
        whole, part = back.gradient(name), back.gradient(name, head=2)
        assert whole.shape == back[name].shape and part.shape == back[name, 2].shape != whole.shape
        np.testing.assert_array_equal(part, whole[:, part.shape[1] : 2 * part.shape[1]])
    assert "Q" in back.steps and "Q" in back.gradients
    with pytest.raises(KeyError, match="the gradients are those of") as raised:
        back.gradient("nothing")
    for names in (back.steps, back.gradients, str(raised.value).strip("'\"").split(" those of ")[1].split(", ")):
        assert "Q" in names and len(set(names)) == len(names)
    counted = chumoku.count(model=model)
    assert counted.data["model"]["parameters"] == counted.parameters
    again = pickle.loads(pickle.dumps(model))
    assert chumoku.count(model=again).parameters == counted.parameters
    for arguments, error, match in [
        ({"model": model}, TypeError, "text: expected"),
        ({"model": model, "text": "a", "head": 99}, ValueError, "head 99"),
        ({"model": model, "text": "a", "target": "0"}, ValueError, "backward=True"),
        ({"model": model, "text": "a", "target": "7", "backward": True}, ValueError, "7"),
        ({"model": model, "text": "a", "layer": 0}, ValueError, "layer: expected a whole number from 1 on, got 0"),
        ({"model": model, "text": ""}, ValueError, "empty"),
        ({"model": model, "text": "a", "part": "middle"}, ValueError, "part: expected one of"),
        ({"model": tmp_path / "nowhere", "text": "a"}, ValueError, "nowhere"),
        ({}, TypeError, "expected a worked example, or model"),
        ({"example": "no such"}, ValueError, "no worked example and no file"),
        ({"example": 3}, TypeError, "expected the name of an example"),
        ({"example": {"inputs": {"Q": [[1]], "K": [[1, 2]]}}}, ValueError, "[QK]"),
        ({"example": {"inputs": {"Q": {1, 2}}}}, TypeError, "got set"),
        ({"example": {"inputs": {"Q": np.array([[np.nan]])}}}, ValueError, "^inputs.Q: expected finite numbers, got nan"),
        ({"example": {"options": {"mask": [[-np.inf]]}}}, ValueError, "^options.mask: expected finite numbers, got -inf"),
        ({"example": "two-tokens", "text": "a"}, ValueError, "^text: applies to a model only"),
        ({"example": "two-tokens", "layer": 7}, ValueError, "^layer: applies to a model only"),
        ({"example": "two-tokens", "part": "encoder"}, ValueError, "^part: applies to a model only"),
        ({"example": "two-tokens", "head": -1}, ValueError, "^head: expected a whole number from 1 on, got -1"),
        ({"model": model, "text": "a", "head": 1.5}, ValueError, "^head: expected a whole number from 1 on, got 1.5"),
        ({"model": model, "text": "\ud800"}, ValueError, "^text: expected a text in Unicode, got a lone surrogate"),
        ({"model": 3, "text": "a"}, TypeError, "^model: expected a model folder or a fitted estimator, got int"),
        ({"model": chumoku.Embedder(tmp_path / "nowhere"), "text": "a"}, ValueError, "nowhere"),
    ]:
        with pytest.raises(error, match=match):
            chumoku.trace(**arguments)


def test_claims_are_checked(tmp_path):
    inputs = {"Q": np.eye(2), "K": np.eye(2), "V": 2 * np.eye(2)}
    wrong = {"inputs": inputs, "claims": {"weights": [["0.6682", "0.3318"], ["0.3318", "0.6682"]]}}
    found = chumoku.check(wrong)
    assert not found and found.ok is False and found.steps and "0.6682" in str(found)
    right = {"inputs": inputs, "claims": {"weights": [["0.6698", "0.3302"], ["0.3302", "0.6698"]]}}
    assert chumoku.check(right)
    (tmp_path / "example.json").write_text(json.dumps(right, default=lambda x: x.tolist()))
    assert chumoku.check(tmp_path / "example.json").ok and chumoku.check(str(tmp_path / "example.json"))
    assert "<pre>" in found._repr_html_() and "not all true" in repr(found)
    with pytest.raises(ValueError):
        chumoku.check({"inputs": inputs, "claims": {"weights": [["much"]]}})
    with pytest.raises(ValueError, match="nowhere.json"):
        chumoku.check("nowhere.json")


def test_counting():
    found = chumoku.count("attention", length=10, width=64, heads=4)
    assert found.parameters == 4 * (64 * 64 + 64)
    assert sum(step["multiply_adds"] for step in found.steps) == found.multiply_adds
    assert [each["network"] for each in found.side_by_side] == ["attention", "rnn", "lstm", "gru"]
    assert "parameters" in str(found) and "16,640" in repr(found) and "<pre>" in found._repr_html_()
    assert chumoku.count(width=512, heads=8, layers=6, vocabulary=10_000, bias=False).parameters > 2e7
    # Numbers beyond 64 bits stay exact.
    huge = chumoku.count("attention", batch=10**6, length=10**9, width=64, heads=4)
    assert huge.multiply_adds > 2**64 and huge.multiply_adds % 10**6 == 0
    with pytest.raises(ValueError, match="network: expected one of"):
        chumoku.count("convolution")
    with pytest.raises(ValueError, match="head"):
        chumoku.count(width=10, heads=3)
    for wrong in (-1, 64.0, 0, True):
        with pytest.raises(ValueError, match="^width: expected a whole number from 1 on, got "):
            chumoku.count(width=wrong)
    with pytest.raises(TypeError, match="^network: expected a text, got int 3"):
        chumoku.count(3)
    assert chumoku.count(width=np.int64(64), heads=4, vocabulary=0).parameters
    program = ROOT / "target" / "release" / "chumoku"
    if not program.exists():
        pytest.skip("no command was built")
    import subprocess

    words = [os.fspath(program), "count", "--network", "decoder", "--d-model", "128", "--heads", "4", "--json"]
    theirs = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert theirs == chumoku.count("decoder", width=128, heads=4).data


def test_every_argument_of_a_trace_has_an_effect(tmp_path):
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal((3, 4)) for name in ("Q", "K", "V")}
    found = chumoku.trace({"inputs": inputs, "tokens": ["a", "b", "c"]})
    assert found.tokens == ["a", "b", "c"]
    assert len({found.text(), found.text(depth="shapes"), found.text(depth="all")}) == 3
    assert found.text(depth="all", digits=2) != found.text(depth="all", digits=6)
    large = chumoku.trace({"inputs": {name: rng.standard_normal((30, 4)) for name in ("Q", "K", "V")}})
    assert len(large.text(depth="all", size=4)) < len(large.text(depth="all", size=20))
    assert found.page("ja") != found.page("en") and 'lang="ja"' in found.page("ja")
    found.save(tmp_path / "ja.md", "ja")
    found.save(tmp_path / "en.md")
    assert (tmp_path / "ja.md").read_text() != (tmp_path / "en.md").read_text()
    for wrong in ({"depth": "deep"}, {"lang": "fr"}):
        with pytest.raises(ValueError, match="expected"):
            found.text(**wrong)
    texts = [f"The {'soup' if i % 3 else 'room'} was {'good' if i % 2 else 'bad'}, number {i}." for i in range(80)]
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, [i % 2 for i in range(80)])
    of = lambda **place: chumoku.trace(model=model, text="The soup was good.", **place)["weights"]
    assert not np.array_equal(of(layer=1), of(layer=2)) and not np.array_equal(of(head=1), of(head=2))
    np.testing.assert_array_equal(of(), of(layer=2, head=1))
    pairs = chumoku.Translator(epochs=1, progress=None).fit([f"a {i}" for i in range(40)], [f"b {i}" for i in range(40)])
    cross = chumoku.trace(model=pairs, text="a 7", target="b 7")
    assert cross.key_tokens and cross.key_tokens != cross.tokens
    encoder = chumoku.trace(model=pairs, text="a 7", target="b 7", part="encoder")
    assert encoder.data["model"]["attention"] == "encoder" and cross.data["model"]["attention"] == "cross"
    counted = chumoku.count("attention", length=10, width=64, heads=4)
    assert counted.bytes == sum(step["bytes"] for step in counted.steps) != counted.parameters


def same(a, b):
    assert a.data == b.data and str(a) == str(b) and a._repr_html_() == b._repr_html_()
    assert a.page("ja") == b.page("ja") and a.text("ja", depth="all") == b.text("ja", depth="all")
    np.testing.assert_array_equal(a["weights"], b["weights"])


def test_a_trace_is_pickled_and_copied(tmp_path):
    written = {"inputs": {name: x.tolist() for name, x in example().items()}}
    file = tmp_path / "example.json"
    file.write_text("\ufeff" + json.dumps(written), encoding="utf-8")
    for source in (written, file, chumoku._chumoku.example_names()[0]):
        found = chumoku.trace(source)
        pickled = pickle.dumps(found)
        if source is file:
            file.write_text("{}")
        again = pickle.loads(pickled)
        same(found, again)
        assert again.text(digits=7, size=2) == found.text(digits=7, size=2)
        same(found, pickle.loads(pickle.dumps(again)))
        same(found, copy.copy(found))
        own = copy.deepcopy(found)
        same(found, own)
        own.data["title"] = "another"
        assert found.data["title"] != "another"


def test_the_trace_of_a_model_is_pickled(tmp_path):
    from test_classifier import rows

    model = chumoku.TextClassifier(epochs=1, progress=None).fit(*rows(60))
    found = chumoku.trace(model=model, text="The soup was great.")
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(found))))
    same(found, again)
    for ending in ("html", "md", "tex", "txt", "json", "xlsx"):
        found.save(tmp_path / f"a.{ending}", "ja"), again.save(tmp_path / f"b.{ending}", "ja")
        a, b = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
        # A workbook contains its creation time.
        assert a == b or ending == "xlsx" and b.startswith(b"PK") and abs(len(a) - len(b)) < 99
    assert len(pickle.dumps(found)) < 9_000_000
    same(found, copy.deepcopy(found))
    assert copy.deepcopy(found).text(digits=2) == found.text(digits=2)
    with pytest.raises(ValueError, match="trace the model again"):
        again.text(digits=2)


def test_checks_and_counts_are_pickled():
    claims = {"inputs": {name: x.tolist() for name, x in example().items()}, "claims": {"weights": [["0.5"] * 5] * 3}}
    for found in (chumoku.check(claims), chumoku.count("attention", length=4, width=8, heads=2)):
        for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            assert again.data == found.data and str(again) == str(found) and repr(again) == repr(found)


def test_sizes_are_those_of_the_model(tmp_path):
    texts = [f"The {'soup' if i % 3 else 'room'} was {'good' if i % 2 else 'bad'}, number {i}." for i in range(80)]
    chumoku.TextClassifier(epochs=1, progress=None, out=tmp_path).fit(texts, [i % 2 for i in range(80)])
    expected = chumoku.count(model=tmp_path, length=7)
    # An embedder stands for its folder.
    assert chumoku.count(model=chumoku.Embedder(tmp_path), length=np.int32(7)).data == expected.data
    assert chumoku.trace(model=chumoku.Autoencoder(tmp_path), text=texts[0])["weights"].size
    for name, x in (("width", 5), ("network", "gru"), ("bias", False), ("vocabulary", 0)):
        with pytest.raises(ValueError, match=f"^{name}: cannot be combined with model"):
            chumoku.count(model=tmp_path, **{name: x})
