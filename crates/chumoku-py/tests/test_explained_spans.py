"""Explanations of a tagger's spans."""

import json
import pickle
import subprocess

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_answers import named, program  # noqa: E402
from test_interrupts import PARTS, ends, long  # noqa: E402

TEXT = "Ben lives in Rome, in house 7."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tagger") / "model"


@pytest.fixture(scope="module")
def tagger(folder):
    return chumoku.TextTagger(progress=None, out=folder).fit(*named())


def command(folder, file, *words):
    subprocess.run([program(), "explain", folder, TEXT, "--json", file, *words], check=True, capture_output=True)
    found = json.loads(file.read_text())
    found.pop("model")
    return found


def ours(found):
    return {name: x for name, x in found.data.items() if name != "model"}


def test_every_span_is_explained(tagger, folder, tmp_path):
    found = tagger.explain(TEXT)
    assert isinstance(found, chumoku.SpanExplanation)
    assert [span[:4] for span in found.spans] == [(0, 3, "person", "Ben"), (13, 17, "place", "Rome")]
    assert [span.probability for span in found.spans] == pytest.approx([span.probability for span in tagger.predict([TEXT])[0]], abs=1e-5)
    assert np.shape(found.effects) == (2, len(found.words)) and found.words[0] == "Ben"
    assert ours(found) == command(folder, tmp_path / "theirs.json")


def test_one_span_is_explained(tagger, folder, tmp_path):
    found = tagger.explain(TEXT, (13, 17))
    (span,) = found.spans
    assert span[:4] == (13, 17, "place", "Rome") and found.data["spans"][0]["is_found"]
    assert ours(found) == command(folder, tmp_path / "theirs.json", "--span", "13:17")
    for same in ((13, 17, "place"), span, {"start": 13, "end": 17}, np.array([13, 17])):
        assert tagger.explain(TEXT, same).data == found.data
    other = tagger.explain(TEXT, span=(13, 17, "person"))
    assert other.spans[0].label == "person" and not other.data["spans"][0]["is_found"]
    assert ours(other) == command(folder, tmp_path / "theirs.json", "--span", "13:17:person")


@pytest.mark.parametrize(
    "span, error, match",
    [
        ((0, 99), ValueError, "span: expected one within the 30 characters"),
        ((-1, 3), ValueError, "span: expected one within"),
        ((3, 3), ValueError, "span: expected one within"),
        ((0, 2), ValueError, "expected word boundaries; the words there are 0:3"),
        ((0, 3, "planet"), ValueError, "planet.*expected one of person, place"),
        ((0,), TypeError, r"span: expected \(start, end\)"),
        ({"start": 0}, TypeError, r"span: expected \(start, end\)"),
        ("0:3", TypeError, r"span: expected \(start, end\)"),
        (3, TypeError, r"span: expected \(start, end\)"),
    ],
)
def test_invalid_spans_are_rejected(tagger, span, error, match):
    with pytest.raises(error, match=match):
        tagger.explain(TEXT, span)


def test_invalid_texts_are_rejected(tagger):
    with pytest.raises(TypeError, match="one text, got list"):
        tagger.explain([TEXT])
    with pytest.raises(ValueError, match="empty"):
        tagger.explain("")
    with pytest.raises(chumoku.NotFittedError):
        chumoku.TextTagger().explain(TEXT)


def test_pages(tagger, tmp_path):
    found = tagger.explain(TEXT)
    found.save(tmp_path / "page.html", lang="ja")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!") and 'lang="ja"' in page and page.count("<article>") == 2
    with pytest.raises(ValueError, match="lang: expected"):
        found.page("fr")
    again = pickle.loads(pickle.dumps(found))
    assert again.data == found.data and again.spans == found.spans and again.effects == found.effects
    assert again.page("ja") == page and again.page() == found.page()
    # An unpickled page can be pickled again.
    assert pickle.loads(pickle.dumps(again)).page() == found.page()
    with pytest.raises(ValueError, match="lang: expected"):
        again.page("fr")
    shown = found._repr_html_()
    assert shown == again._repr_html_() and "<b>Rome</b> place" in shown and "<script" not in shown
    odd = tagger.explain("<i>Ben</i> lives in Rome, & more")._repr_html_()
    assert "<i>" not in odd and "&amp;" in odd


def test_a_text_without_spans(tagger):
    found = tagger.explain("in house, in")
    assert found.spans == [] and found.words == [] and found.effects == []
    assert "no spans" in found._repr_html_() and found.page().startswith("<!")


def test_an_encoder_has_attention(tmp_path):
    texts, spans = named(60)
    (tmp_path / "texts.txt").write_text("\n".join(texts * 4))
    words = [program(), "train", "texts.txt", "--task", "mlm", "--epochs", "1", "--out", "base"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    model = chumoku.TextTagger(epochs=1, from_pretrained=tmp_path / "base", progress=None, out=tmp_path / "ours").fit(texts, spans)
    found = model.explain(TEXT)
    assert ours(found) == command(tmp_path / "ours", tmp_path / "theirs.json") and "network" in found.data["spans"][0]
    subprocess.run([program(), "explain", tmp_path / "ours", TEXT, "--html", tmp_path / "page.html"], check=True, capture_output=True)
    theirs = (tmp_path / "page.html").read_text(encoding="utf-8")
    # The displayed name of a model is its folder's name or its class.
    assert found.page().replace("TextTagger", "ours") == theirs and "rollout" in theirs.lower()
    # The tag of a word moves to that of another text.
    other = TEXT.replace("7", "8")
    patched = model.explain(TEXT, (13, 17), patch=other, lens=True)
    assert patched.patching["position"]["word"]["text"] == "Rome" and patched.patching["other"] == other
    assert patched.lens == found.lens and pickle.loads(pickle.dumps(patched)).patching == patched.patching
    with pytest.raises(ValueError, match="no network|transformer"):
        chumoku.TextTagger(progress=None).fit(texts, spans).explain(TEXT, patch=other)


def test_ctrl_c_ends_an_explanation(tagger):
    before = tagger.predict([TEXT])
    story, part = (long(words) + " Anna lives in Oslo, in house 7." for words in (30000, 30000 // PARTS))
    ends(*(lambda text=text: tagger.explain(text, (len(text) - 31, len(text) - 27)) for text in (story, part)))
    assert tagger.predict([TEXT]) == before
