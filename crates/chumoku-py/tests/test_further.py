"""Continued training of the user's own models."""

import csv
import json
import subprocess

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_answers import compared, program, same_files  # noqa: E402
from test_classifier import THINGS, rows, small  # noqa: E402


def news(n=60):
    """Rows of a new class, and more rows of an old one."""
    more = [(f"Where is my {THINGS[i % 10]}, order {i}?", "question") for i in range(n)]
    return [text for text, _ in more] + ["A lovely evening, again."], [label for _, label in more] + ["yes"]


def write(file, texts, labels):
    with open(file, "w", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *zip(texts, labels)])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Old and new rows, the command's model of the old rows, and its continued model."""
    place = tmp_path_factory.mktemp("further")
    write(place / "old.csv", *rows())
    write(place / "new.csv", *news())
    run(place, "old.csv", "--out", "model", "--epochs", "2")
    run(place, "new.csv", "--from", "model", "--out", "both", "--epochs", "2")
    return place


def run(place, *words):
    subprocess.run([program(), "train", *words], cwd=place, check=True, capture_output=True, timeout=120)


FILES = ("model.safetensors", "tokenizer.json", "config.json")


def test_the_model_matches_the_command(place, tmp_path):
    said = []
    model = small(from_pretrained=place / "model", out=tmp_path / "ours", progress=said.append)
    assert model.fit(*news(), old=rows()) is model
    same_files(place / "both", tmp_path / "ours", *FILES)
    assert model.classes_.tolist() == ["no", "question", "yes"]
    assert model.predict(["Where is my beer, order 999?", "The soup was great."]).tolist() == ["question", "yes"]
    further = model.metrics_["further"]
    assert further["replays"] is True and [each["rows_of"] for each in further["changes"]][0] == "old_valid"
    # The old rows are those that the model was trained on.
    assert not [event for event in said if event.get("about") == "note"]


def test_models_trained_in_python_can_be_continued(place, tmp_path):
    small(out=tmp_path / "model").fit(*rows())
    small(from_pretrained=tmp_path / "model", out=tmp_path / "ours").fit(*news(), old=rows())
    same_files(place / "both", tmp_path / "ours", *FILES)


def test_different_old_rows_are_reported(place):
    said = []
    texts, labels = rows()
    small(from_pretrained=place / "model", progress=said.append, epochs=1).fit(*news(), old=(texts[:-40], labels[:-40]))
    notes = [event["text"] for event in said if event.get("about") == "note"]
    assert any("old rows differ from those" in text for text in notes)
    said.clear()
    # New rows that duplicate old ones are left out.
    small(from_pretrained=place / "model", progress=said.append, epochs=1).fit(texts[:8] + news()[0], labels[:8] + news()[1], old=rows())
    (text,) = [event["text"] for event in said if event.get("about") == "note"]
    assert text == "8 rows left out of the new data: their texts are among the old rows"


def test_an_interrupted_fit_saves_and_can_be_resumed(place, tmp_path):
    def stop(event):
        if event["event"] == "evaluated":
            raise KeyboardInterrupt

    wish = dict(from_pretrained=place / "model", out=tmp_path / "ours")
    with pytest.raises(KeyboardInterrupt):
        small(**wish, progress=stop).fit(*news(), old=rows())
    assert (tmp_path / "ours" / "checkpoints").exists()
    small(**wish, resume=True).fit(*news(), old=rows())
    same_files(place / "both", tmp_path / "ours", *FILES)


def test_new_rows_only(place, tmp_path):
    model = small(from_pretrained=place / "model", out=tmp_path / "ours").fit(*news(), old="none")
    assert model.metrics_["further"]["replays"] is False
    assert model.classes_.tolist() == ["no", "question", "yes"]
    (tmp_path / "model").mkdir()
    for path in (place / "model").iterdir():
        if path.is_file():
            (tmp_path / "model" / path.name).write_bytes(path.read_bytes())
    write(tmp_path / "new.csv", *news())
    # Works even if the old rows cannot be read.
    run(tmp_path, "new.csv", "--from", "model", "--old", "none", "--out", "theirs", "--epochs", "2")
    same_files(tmp_path / "theirs", tmp_path / "ours", *FILES)


def test_ngrams_only(tmp_path):
    chumoku.TextClassifier(model="ngrams", progress=None, out=tmp_path / "model").fit(*rows())
    model = chumoku.TextClassifier(from_pretrained=tmp_path / "model", progress=None, out=tmp_path / "ours").fit(*news(), old=rows())
    assert chumoku.TextClassifier(model="ngrams", from_pretrained=tmp_path / "model", progress=None).fit(*news(), old=rows()).metrics_
    assert model.metrics_["further"]["changes"] and not (tmp_path / "ours" / "tokenizer.json").exists()
    assert model.predict(["Where is my beer, order 999?"]).tolist() == ["question"]
    with pytest.raises(ValueError, match="model: your own model .* keeps its target"):
        small(model="lstm", from_pretrained=tmp_path / "model").fit(*news(), old=rows())


def test_non_string_labels(tmp_path):
    texts, labels = rows()
    numbers = {"no": 0, "yes": 10, "question": 9}
    small(out=tmp_path / "model", model="ngrams", epochs=None).fit(texts, [numbers[label] for label in labels])
    wish = dict(from_pretrained=tmp_path / "model", model="ngrams", epochs=None)
    new = (news()[0], [numbers[label] for label in news()[1]])
    model = small(**wish).fit(*new, old=(texts, np.array([numbers[label] for label in labels])))
    assert model.classes_.tolist() == [0, 9, 10]
    # The folder does not record that a class name was a number.
    assert set(small(**wish).fit(*new, old="none").classes_) == {"0", 9, 10}
    with pytest.raises(ValueError, match="the same string form"):
        small(**wish).fit(*new, old=(texts, [str(numbers[label]) for label in labels]))


def test_invalid_requests_are_rejected(place, tmp_path):
    folder = place / "model"
    with pytest.raises(ValueError, match=r'Give its old rows as fit\(X, y, old=\(texts, labels\)\), .* old="none".*`chumoku train NEW --from'):
        small(from_pretrained=folder).fit(*news())
    with pytest.raises(ValueError, match="old: expected from_pretrained to be a model trained by Chumoku"):
        small().fit(*news(), old=rows())
    for name, x in dict(freeze=1, lora=4, folds=3, tune=3, tokens="words", model="gru").items():
        with pytest.raises(ValueError, match=f"^{name}: your own model .* keeps its target"):
            small(**{"from_pretrained": folder, name: x}).fit(*news(), old=rows())
    with pytest.raises(ValueError, match="^hierarchy: the model's labels have no hierarchy"):
        small(from_pretrained=folder, hierarchy="/").fit(*news(), old=rows())
    several = lambda labels: [[label] for label in labels]
    with pytest.raises(ValueError, match="^y: your own model .*one class per text"):
        small(from_pretrained=folder).fit(news()[0], several(news()[1]), old=(rows()[0], several(rows()[1])))
    with pytest.raises(ValueError, match="^y: your own model"):
        chumoku.TextRegressor(from_pretrained=folder, progress=None).fit(news()[0], range(len(news()[0])))
    with pytest.raises(ValueError, match="expected single texts, which .* was trained on, got pairs"):
        small(from_pretrained=folder).fit(*compared(), old=compared())
    for old, error, match in [
        (rows()[0], TypeError, "old: expected .texts, labels."),
        ("all", TypeError, "old: expected .texts, labels."),
        ((rows()[0], ["yes"]), ValueError, "old: expected a label for each of 160 texts, got 1"),
        ((["a", ""], ["yes", "no"]), ValueError, "old: row 1: expected some characters"),
        ((["a"], [["yes"]]), TypeError, "old: row 0: expected a label, got list"),
        ((["a"], [None]), ValueError, "old: row 0: expected a label, got nothing"),
        (compared(), TypeError, "old: expected as many texts per row"),
    ]:
        with pytest.raises(error, match=match):
            small(from_pretrained=folder).fit(*news(), old=old)
    with pytest.raises(ValueError, match=r"^fit\(X, y\): expected new rows to train on"):
        small(from_pretrained=folder).fit(*rows(), old=rows())
    small(model="ngrams", epochs=None, out=tmp_path / "several").fit(rows()[0], several(rows()[1]))
    with pytest.raises(ValueError, match="^y: your own model .*any number of labels per text"):
        small(model="ngrams", epochs=None, from_pretrained=tmp_path / "several").fit(*news(), old=rows())
    with pytest.raises(TypeError, match="^old: row 0: expected a list of labels, got str"):
        small(model="ngrams", epochs=None, from_pretrained=tmp_path / "several").fit(news()[0], several(news()[1]), old=rows())


def lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_labels_and_numbers_match_the_command(place, tmp_path):
    sets = lambda labels: [[label, "short"] if i % 3 == 0 else [label] for i, label in enumerate(labels)]
    points = lambda labels: [{"no": 1, "yes": 4, "question": 2}[label] + i // 2 % 3 for i, label in enumerate(labels)]
    for name, answers, estimator in [("labels", sets, chumoku.TextClassifier), ("number", points, chumoku.TextRegressor)]:
        for file, (texts, labels) in [("old", rows()), ("new", news())]:
            lines(tmp_path / f"{file}.jsonl", [{"text": text, name: y} for text, y in zip(texts, answers(labels))])
        task = ("--task", "score" if name == "number" else name, "--label", name)
        run(tmp_path, "old.jsonl", *task, "--out", f"{name}-model", "--epochs", "2")
        run(tmp_path, "new.jsonl", "--label", name, "--from", f"{name}-model", "--out", f"{name}-theirs", "--epochs", "2")
        wish = dict(epochs=2, progress=None, from_pretrained=tmp_path / f"{name}-model")
        ours = estimator(**wish, out=tmp_path / f"{name}-ours").fit(news()[0], answers(news()[1]), old=(rows()[0], answers(rows()[1])))
        same_files(tmp_path / f"{name}-theirs", tmp_path / f"{name}-ours", *FILES)
        assert ours.metrics_["further"]["figure"] == {"labels": "micro_f1", "number": "mean_absolute_error"}[name]
        with pytest.raises(ValueError, match="Give its old rows"):
            estimator(**wish).fit(news()[0], answers(news()[1]))
        with pytest.raises((TypeError, ValueError), match="^old: "):
            estimator(**wish).fit(news()[0], answers(news()[1]), old=(rows()[0], answers(rows()[1])[:-1]))


def test_feature_columns_are_kept(tmp_path):
    table = lambda texts, at: {"text": texts, "price": [(i * 7 + at) % 50 for i in range(len(texts))]}
    wish = dict(model="ngrams", progress=None, columns=["price"])
    (old, labels), (new, added) = rows(), news()
    chumoku.TextClassifier(**wish, out=tmp_path / "model").fit(table(old, 0), labels)
    said = []
    more = chumoku.TextClassifier(**wish | {"from_pretrained": tmp_path / "model", "progress": said.append})
    more.fit(table(new, 3), added, old=(table(old, 0), labels))
    assert more.classes_.tolist() == ["no", "question", "yes"]
    assert not [event for event in said if event.get("about") == "note" and "differ from those" in event["text"]]
    with pytest.raises(ValueError, match="^columns: expected price, which .* was trained with, got no columns"):
        chumoku.TextClassifier(model="ngrams", progress=None, from_pretrained=tmp_path / "model").fit(new, added, old=(old, labels))


def test_taggers_can_be_continued(tmp_path):
    def named(names, kind, n):
        texts = [f"{names[i % len(names)]} came on day {i}." for i in range(n)]
        return texts, [[(0, len(names[i % len(names)]), kind)] for i in range(n)]

    old, new = named(["Anna", "Ben", "Clara", "David"], "person", 80), named(["Oslo", "Rome", "Lima"], "place", 60)
    for file, (texts, spans) in [("old", old), ("new", new)]:
        lines(tmp_path / f"{file}.jsonl", [{"text": text, "spans": of} for text, of in zip(texts, spans)])
    run(tmp_path, "old.jsonl", "--task", "tag", "--out", "model")
    run(tmp_path, "new.jsonl", "--from", "model", "--out", "theirs")
    tagger = chumoku.TextTagger(from_pretrained=tmp_path / "model", progress=None, out=tmp_path / "ours").fit(*new, old=old)
    same_files(tmp_path / "theirs", tmp_path / "ours", "model.safetensors", "config.json")
    assert tagger.classes_ == ["person", "place"] and tagger.metrics_["further"]["figure"] == "span_f1"
    assert [span.label for span in tagger.predict(["Rome came on day 3."])[0]] == ["place"]
    with pytest.raises(ValueError, match=r"Give its old rows as fit\(X, y, old=\(texts, spans\)\)"):
        chumoku.TextTagger(from_pretrained=tmp_path / "model", progress=None).fit(*new)
    with pytest.raises(TypeError, match="^old: row 0: expected a list of spans"):
        chumoku.TextTagger(from_pretrained=tmp_path / "model", progress=None).fit(*new, old=(["a"], ["b"]))


def test_a_fine_tuned_model_can_be_continued_or_reused(tmp_path):
    """With its old rows it is trained further; without them it serves as an encoder to start from."""
    (tmp_path / "texts.txt").write_text("\n".join(rows()[0] + news()[0]))
    run(tmp_path, "texts.txt", "--task", "mlm", "--epochs", "1", "--out", "base")
    small(from_pretrained=tmp_path / "base", out=tmp_path / "model").fit(*rows())
    write(tmp_path / "old.csv", *rows())
    write(tmp_path / "new.csv", *news())
    run(tmp_path, "old.csv", "--from", "base", "--out", "theirs", "--epochs", "2")
    same_files(tmp_path / "theirs", tmp_path / "model", *FILES)
    run(tmp_path, "new.csv", "--from", "theirs", "--out", "both", "--epochs", "2")
    model = small(from_pretrained=tmp_path / "model", out=tmp_path / "ours").fit(*news(), old=rows())
    same_files(tmp_path / "both", tmp_path / "ours", *FILES)
    assert model.classes_.tolist() == ["no", "question", "yes"] and model.metrics_["further"]["replays"] is True
    alone = small(from_pretrained=tmp_path / "model", out=tmp_path / "alone").fit(*news())
    assert alone.classes_.tolist() == ["question", "yes"] and "further" not in alone.metrics_
    run(tmp_path, "new.csv", "--from", "theirs", "--old", "encoder", "--out", "again", "--epochs", "2")
    same_files(tmp_path / "again", tmp_path / "alone", *FILES)
