"""A classifier of one's own, trained further."""

import csv
import subprocess

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_answers import compared, program, same_files  # noqa: E402
from test_classifier import THINGS, rows, small  # noqa: E402


def news(n=60):
    """A class that the old rows do not have, and more rows of one that they have."""
    more = [(f"Where is my {THINGS[i % 10]}, order {i}?", "question") for i in range(n)]
    return [text for text, _ in more] + ["A lovely evening, again."], [label for _, label in more] + ["yes"]


def write(file, texts, labels):
    with open(file, "w", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *zip(texts, labels)])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Old and new rows, what the command makes of the old ones, and then of both."""
    place = tmp_path_factory.mktemp("further")
    write(place / "old.csv", *rows())
    write(place / "new.csv", *news())
    run(place, "old.csv", "--out", "model", "--epochs", "2")
    run(place, "new.csv", "--from", "model", "--out", "both", "--epochs", "2")
    return place


def run(place, *words):
    subprocess.run([program(), "train", *words], cwd=place, check=True, capture_output=True, timeout=120)


FILES = ("model.safetensors", "tokenizer.json", "config.json")


def test_the_same_model_as_the_command(place, tmp_path):
    said = []
    model = small(from_pretrained=place / "model", out=tmp_path / "ours", progress=said.append)
    assert model.fit(*news(), old=rows()) is model
    same_files(place / "both", tmp_path / "ours", *FILES)
    assert model.classes_.tolist() == ["no", "question", "yes"]
    assert model.predict(["Where is my beer, order 999?", "The soup was great."]).tolist() == ["question", "yes"]
    further = model.metrics_["further"]
    assert further["replays"] is True and [each["rows_of"] for each in further["changes"]][0] == "old_valid"
    # The rows are those that it was trained on.
    assert not [event for event in said if event.get("about") == "note"]


def test_a_model_of_python_too(place, tmp_path):
    small(out=tmp_path / "model").fit(*rows())
    small(from_pretrained=tmp_path / "model", out=tmp_path / "ours").fit(*news(), old=rows())
    same_files(place / "both", tmp_path / "ours", *FILES)


def test_other_old_rows_are_said(place):
    said = []
    texts, labels = rows()
    small(from_pretrained=place / "model", progress=said.append, epochs=1).fit(*news(), old=(texts[:-40], labels[:-40]))
    notes = [event["text"] for event in said if event.get("about") == "note"]
    assert any("old rows are not those" in text for text in notes)
    said.clear()
    # Rows that are among the old ones stay out.
    small(from_pretrained=place / "model", progress=said.append, epochs=1).fit(texts[:8] + news()[0], labels[:8] + news()[1], old=rows())
    (text,) = [event["text"] for event in said if event.get("about") == "note"]
    assert text == "8 rows left out of the new data, for texts that are among the old rows"


def test_an_interrupt_saves_and_a_later_fit_goes_on(place, tmp_path):
    def stop(event):
        if event["event"] == "evaluated":
            raise KeyboardInterrupt

    wish = dict(from_pretrained=place / "model", out=tmp_path / "ours")
    with pytest.raises(KeyboardInterrupt):
        small(**wish, progress=stop).fit(*news(), old=rows())
    assert (tmp_path / "ours" / "checkpoints").exists()
    small(**wish, resume=True).fit(*news(), old=rows())
    same_files(place / "both", tmp_path / "ours", *FILES)


def test_new_rows_alone(place, tmp_path):
    model = small(from_pretrained=place / "model", out=tmp_path / "ours").fit(*news(), old="none")
    assert model.metrics_["further"]["replays"] is False
    assert model.classes_.tolist() == ["no", "question", "yes"]
    (tmp_path / "model").mkdir()
    for path in (place / "model").iterdir():
        if path.is_file():
            (tmp_path / "model" / path.name).write_bytes(path.read_bytes())
    write(tmp_path / "new.csv", *news())
    # Where the old rows cannot be read.
    run(tmp_path, "new.csv", "--from", "model", "--old", "none", "--out", "theirs", "--epochs", "2")
    same_files(tmp_path / "theirs", tmp_path / "ours", *FILES)


def test_ngrams_alone(tmp_path):
    chumoku.TextClassifier(model="ngrams", progress=None, out=tmp_path / "model").fit(*rows())
    model = chumoku.TextClassifier(from_pretrained=tmp_path / "model", progress=None, out=tmp_path / "ours").fit(*news(), old=rows())
    assert chumoku.TextClassifier(model="ngrams", from_pretrained=tmp_path / "model", progress=None).fit(*news(), old=rows()).metrics_
    assert model.metrics_["further"]["changes"] and not (tmp_path / "ours" / "tokenizer.json").exists()
    assert model.predict(["Where is my beer, order 999?"]).tolist() == ["question"]
    with pytest.raises(ValueError, match="model: a classifier of your own .* is trained further as it is"):
        small(model="lstm", from_pretrained=tmp_path / "model").fit(*news(), old=rows())


def test_labels_that_are_no_texts(tmp_path):
    texts, labels = rows()
    numbers = {"no": 0, "yes": 10, "question": 9}
    small(out=tmp_path / "model", model="ngrams", epochs=None).fit(texts, [numbers[label] for label in labels])
    wish = dict(from_pretrained=tmp_path / "model", model="ngrams", epochs=None)
    new = (news()[0], [numbers[label] for label in news()[1]])
    model = small(**wish).fit(*new, old=(texts, np.array([numbers[label] for label in labels])))
    assert model.classes_.tolist() == [0, 9, 10]
    # Of classes that the folder alone names nobody says that they are numbers.
    assert set(small(**wish).fit(*new, old="none").classes_) == {"0", 9, 10}
    with pytest.raises(ValueError, match="written alike"):
        small(**wish).fit(*new, old=(texts, [str(numbers[label]) for label in labels]))


def test_what_is_refused(place, tmp_path):
    folder = place / "model"
    with pytest.raises(ValueError, match=r'give them as fit\(X, y, old=\(texts, labels\)\), or .* old="none".*`chumoku train NEW --from'):
        small(from_pretrained=folder).fit(*news())
    with pytest.raises(ValueError, match="old: expected from_pretrained to be a classifier that was trained here"):
        small().fit(*news(), old=rows())
    for name, x in dict(freeze=1, lora=4, folds=3, tune=3, hierarchy="/", tokens="words", model="gru").items():
        with pytest.raises(ValueError, match=f"^{name}: a classifier of your own .* is trained further as it is"):
            small(**{"from_pretrained": folder, name: x}).fit(*news(), old=rows())
    with pytest.raises(ValueError, match="^y: a classifier of your own"):
        small(from_pretrained=folder).fit(news()[0], [[label] for label in news()[1]], old=rows())
    with pytest.raises(ValueError, match="^y: a classifier of your own"):
        chumoku.TextRegressor(from_pretrained=folder, progress=None).fit(news()[0], range(len(news()[0])))
    with pytest.raises(ValueError, match="expected single texts, which .* was trained on, got pairs"):
        small(from_pretrained=folder).fit(*compared(), old=compared())
    for old, error, match in [
        (rows()[0], TypeError, "old: expected .texts, labels."),
        ("all", TypeError, "old: expected .texts, labels."),
        ((rows()[0], ["yes"]), ValueError, "old: expected a label for each of 160 texts, got 1"),
        ((["a", ""], ["yes", "no"]), ValueError, "old: row 1: expected some characters"),
        ((["a"], [["yes"]]), TypeError, "old: row 0: expected a label, got list"),
        ((["a"], [None]), TypeError, "old: row 0: expected a label, got NoneType"),
        (compared(), TypeError, "old: expected as many texts a row"),
    ]:
        with pytest.raises(error, match=match):
            small(from_pretrained=folder).fit(*news(), old=old)
    with pytest.raises(ValueError, match=r"^fit\(X, y\): expected new rows to train on"):
        small(from_pretrained=folder).fit(*rows(), old=rows())
    several = [[label] for label in rows()[1]]
    small(epochs=1, out=tmp_path / "several").fit(rows()[0], several)
    with pytest.raises(ValueError, match="^from_pretrained .*several: expected a classifier of one class a text"):
        small(from_pretrained=tmp_path / "several").fit(*news(), old=rows())
