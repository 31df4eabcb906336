"""`chumoku.arrow`: its answers match the command's, for any split of a table into batches."""

import json
import pathlib
import pickle
import subprocess
import sys

import pytest

pa = pytest.importorskip("pyarrow", reason="SKIPPED: no pyarrow here")

from chumoku import arrow  # noqa: E402

CHECKPOINTS = pathlib.Path(__file__).resolve().parents[3] / "golden" / "pretrained"
TEXTS = ["A wonderful film, warm and clever.", "Slow, cold and dull.", "I liked the room.", "Never again.", "Good food, bad service."]


def command(*arguments, input=None, cwd=None):
    """The command of the installed wheel."""
    found = subprocess.run(
        [sys.executable, "-m", "chumoku", *map(str, arguments)], capture_output=True, text=True, input=input, cwd=cwd, timeout=120
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def lines(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Trains a small model of each kind with the command."""
    place = tmp_path_factory.mktemp("models")

    def train(name, rows, *more):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        command("train", place / f"{name}.jsonl", "--out", place / name, *more)

    words = ["soup", "bill", "soup and bill"]
    command("train", "--builtin", "reviews", "--model", "ngrams", "--out", place / "classes")
    several = [{"text": f"{words[i % 3]} number {i}", "labels": [["food"], ["price"], ["food", "price"]][i % 3]} for i in range(60)]
    train("labels", several, "--epochs", "1")
    train("numbers", [{"text": f"{['bad', 'fair', 'good'][i % 3]} night {i}", "score": 1.5 + i % 3} for i in range(60)], "--task", "score", "--epochs", "1")
    train("pairs", [{"premise": f"A dog runs on day {i}.", "hypothesis": f"A dog {['runs', 'eats'][i % 2]}.", "label": ["yes", "no"][i % 2]} for i in range(80)], "--model", "ngrams")
    train("columns", [{"text": f"a meal number {i}", "price": i, "label": ["fair", "dear"][i > 40]} for i in range(80)], "--model", "ngrams", "--columns", "price", "--text", "text", "--label", "label")
    (place / "names.conll").write_text("".join(f"{['Anna', 'Ben', 'Clara'][i % 3]} B-person\nwaits O\n\n" for i in range(60)))
    command("train", place / "names.conll", "--out", place / "spans")
    return place


def columns(table, *names):
    return list(zip(*(table[name].to_pylist() for name in names)))


def test_classes_match_the_command(models):
    found = arrow.predict(models / "classes")(pa.table({"id": range(5), "text": TEXTS}))
    assert found.column_names == ["id", "text", "label", "probability", "error"]
    told = [json.loads(line) for line in command("predict", models / "classes", "--json", input=lines(TEXTS)).splitlines()]
    assert columns(found, "label", "probability", "error") == [(row["label"], row["probability"], None) for row in told]


def test_answers_do_not_depend_on_batches(models):
    table = pa.table({"text": TEXTS * 7})
    for name in ("classes", "labels", "numbers", "spans"):
        answers = arrow.predict(models / name)
        whole = answers(table)
        assert whole.schema == answers.schema(table.schema)
        for size in (1, 4, 13):
            batches = list(answers.batches(table.to_batches(max_chunksize=size)))
            assert len(batches) == -(-35 // size)
            assert pa.Table.from_batches(batches).equals(whole)


def test_multi_label_answers_are_lists(models):
    texts = ["soup number 3", "soup and bill", "a bill"]
    found = arrow.predict(models / "labels")(pa.table({"text": texts}))
    told = [json.loads(line)["labels"] for line in command("predict", models / "labels", "--json", input=lines(texts)).splitlines()]
    assert found["labels"].to_pylist() == [[one["label"] for one in row] for row in told]
    assert found["probabilities"].to_pylist() == [[one["probability"] for one in row] for row in told]


def test_numbers_and_spans(models):
    texts = ["bad night 2", "Anna waits"]
    told = [json.loads(line) for line in command("predict", models / "numbers", "--json", input=lines(texts)).splitlines()]
    found = arrow.predict(models / "numbers")(pa.table({"text": texts}))
    assert columns(found, "score", "low", "high") == [(row["score"], row["low"], row["high"]) for row in told]
    told = [json.loads(line)["spans"] for line in command("predict", models / "spans", "--json", input=lines(texts)).splitlines()]
    found = arrow.predict(models / "spans")(pa.table({"text": texts}))["spans"].to_pylist()
    assert found == told and found[1][0]["label"] == "person"


def test_flags_match_the_command(models):
    table = pa.table({"text": TEXTS})
    found = arrow.predict(models / "classes", top=2, precision=None)(table)
    assert found.column_names == ["text", "label", "probability", "label_2", "probability_2", "error"]
    assert all(abs(a + b - 1) < 1e-5 for a, b in columns(found, "probability", "probability_2"))
    unsure = arrow.predict(models / "classes", abstain=0.6)(pa.table({"text": ["zzz qqq", TEXTS[0]]}))
    assert unsure["label"].to_pylist()[0] is None and unsure["abstained"].to_pylist()[0] in ("unsure", "unlike_training")
    assert unsure["label"].to_pylist()[1] == "positive" and unsure["abstained"].to_pylist()[1] is None
    certain = arrow.predict(models / "classes", threshold={"positive": 0.999999})(table)
    assert set(certain["label"].to_pylist()) == {"negative"}
    with pytest.raises(ValueError, match="nowhere"):
        arrow.predict("nowhere").load()


@pytest.mark.parametrize("name", ["labels", "numbers"])
def test_unanswered_rows_are_null_with_a_reason(models, name):
    texts = ["soup number 3", "soup and bill", "bill number 4", "zzz qqq"] + [f"{['bad', 'fair', 'good'][i % 3]} night {i}" for i in range(30)]
    table = pa.table({"text": [*texts, None]})
    answers = arrow.predict(models / name, abstain=0.4)
    found = answers(table)
    fields = {"labels": ["labels", "probabilities"], "numbers": ["score", "low", "high"]}[name]
    assert found.column_names == ["text", *fields, "abstained", "error"] and found.schema == answers.schema(table.schema)
    assert found.schema.field("abstained").type == pa.string()
    told = [json.loads(line) for line in command("predict", models / name, "--abstain", "0.4", "--json", input=lines(texts)).splitlines()]
    assert found["abstained"].to_pylist() == [row.get("why") for row in told] + [None]
    plain = arrow.predict(models / name)(table)
    for row, one, free in zip(told, found.to_pylist(), plain.to_pylist()):
        assert [one[field] for field in fields] == [None if row["abstained"] else free[field] for field in fields]
    reasons = {row.get("why") for row in told}
    assert None in reasons and len(reasons) > 1
    assert [row["error"] is None for row in found.to_pylist()] == [True] * len(texts) + [False]


def test_messages_name_arguments_instead_of_flags(models):
    def said(kind, make):
        with pytest.raises(kind) as raised:
            make()
        return str(raised.value)

    predict = lambda **more: arrow.predict(models / "classes", **more).load
    assert said(ValueError, predict(top=0)) == "top: expected a whole number from 1, found 0"
    assert said(ValueError, predict(abstain=2)) == "abstain: expected a number between 0 and 1, such as 0.95, found 2"
    assert said(ValueError, predict(precision="low")) == "precision: expected one of highest, high, medium, got low"
    assert said(ValueError, predict(precision_at_least={"none": 0.9})).startswith("precision_at_least: the model has no class")
    assert said(ValueError, arrow.predict(models / "numbers", top=2).load).startswith("top: this model predicts a number")
    table = pa.table({"text": TEXTS})
    assert said(TypeError, lambda: arrow.predict(models / "classes")([1])).endswith("(pyarrow.Table or pyarrow.RecordBatch), got list")
    assert said(TypeError, lambda: arrow.predict(models / "classes").schema(table)).endswith("got Table")
    twice = pa.table([TEXTS, TEXTS], names=["text", "text"])
    assert "2 columns 'text'" in said(ValueError, lambda: arrow.predict(models / "classes")(twice))
    assert "no column 'review'" in said(ValueError, lambda: arrow.predict(models / "classes", column="review").schema(table.schema))
    assert "'price'" in said(ValueError, lambda: arrow.predict(models / "columns").schema(table.schema))
    assert "int64" in said(TypeError, lambda: arrow.predict(models / "classes").schema(pa.schema([("text", pa.int64())])))
    batch = arrow.predict(models / "classes")(table.to_batches()[0])
    assert batch.to_pydict() == arrow.predict(models / "classes")(table).to_pydict()


def test_explaining_translators_is_rejected(tmp_path):
    rows = "".join(json.dumps({"source": f"{i} apples", "target": f"{i} pommes"}) + "\n" for i in range(40))
    (tmp_path / "rows.jsonl").write_text(rows)
    command("train", tmp_path / "rows.jsonl", "--task", "translate", "--epochs", "1", "--out", tmp_path / "model")
    with pytest.raises(ValueError, match="got a translator: .*Translator.load") as raised:
        arrow.explain(tmp_path / "model").load()
    assert "--" not in str(raised.value)


def test_pairs_and_feature_columns(models):
    table = pa.table({"a": ["A dog runs on day 3.", "A dog runs on day 4.", None], "b": ["A dog runs.", "A dog eats.", "A dog eats."]})
    found = arrow.predict(models / "pairs", column=("a", "b"))(table)
    assert found["label"].to_pylist() == ["yes", "no", None]
    assert "column 'a'" in found["error"].to_pylist()[2]
    with pytest.raises(ValueError, match="pairs of texts"):
        arrow.predict(models / "pairs", column="a")(table)
    with pytest.raises(ValueError, match="single texts"):
        arrow.predict(models / "classes", column=("a", "b"))(table)
    meals = pa.table({"text": ["a meal"] * 3, "price": [1, 79, None]})
    rows = "".join(json.dumps(row) + "\n" for row in meals.to_pylist())
    told = [json.loads(line) for line in command("predict", models / "columns", "--json", "--text", "text", input=rows).splitlines()]
    found = arrow.predict(models / "columns")(meals)
    assert columns(found, "label", "probability") == [(row["label"], row["probability"]) for row in told]
    assert found["label"].to_pylist()[:2] == ["fair", "dear"]
    fixed = arrow.predict(models / "columns", set={"price": 79})(meals.select(["text"]))
    assert fixed["probability"].to_pylist() == [found["probability"].to_pylist()[1]] * 3
    with pytest.raises(ValueError, match="price"):
        arrow.predict(models / "columns")(meals.select(["text"]))


def test_unanswerable_rows_keep_their_position_and_reason(models):
    table = pa.table({"path": ["a.csv", "a.csv", "b.csv"], "line": [7, 8, 9], "text": [TEXTS[0], None, " "]})
    found = arrow.predict(models / "classes")(table)
    assert found["label"].null_count == 2 and found["label"].to_pylist()[0] == "positive"
    assert found["error"].to_pylist() == [
        None, "a.csv: expected a text, got nothing (null)", "b.csv: expected some characters, got an empty text",
    ]  # fmt: skip
    found = arrow.predict(models / "classes", place=["path", "line"])(table)
    assert found["error"].to_pylist()[1].startswith("a.csv, line 8: ")
    none = arrow.predict(models / "classes")(table.slice(1, 1).append_column("label", pa.array(["x"])))
    assert none.column_names == ["path", "line", "text", "label", "predicted_label", "probability", "error"]
    assert arrow.predict(models / "classes")(table.slice(0, 0)).num_rows == 0
    nulls = arrow.predict(models / "classes")(pa.table({"text": pa.nulls(2)}))
    assert nulls["error"].null_count == 0
    with pytest.raises(TypeError, match="int64"):
        arrow.predict(models / "classes", column="line")(table)
    with pytest.raises(ValueError, match="no column 'review'.*path"):
        arrow.predict(models / "classes", column="review")(table)


def test_other_types_of_text_columns(models):
    plain = arrow.predict(models / "classes")(pa.table({"text": TEXTS})).drop_columns("text")
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert arrow.predict(models / "classes")(pa.table({"text": pa.array(TEXTS).cast(kind)})).drop_columns("text").equals(plain)


def test_explanations_match_the_command(models):
    rows = lines(TEXTS)
    for name in ("classes", "spans"):
        file = models / "explain.jsonl"
        file.write_text(rows)
        told = [json.loads(line) for line in command("explain", models / name, "--input", file, "--json", "-").splitlines()]
        found = arrow.explain(models / name)(pa.table({"text": [*TEXTS, None]}))
        for row in told:
            row.pop("input")
        assert [json.loads(text) for text in found["explanation"].to_pylist()[:-1]] == told
        assert found["explanation"].to_pylist()[-1] is None and "null" in found["error"].to_pylist()[-1]
    found = arrow.explain(models / "classes")(pa.table({"text": TEXTS}))
    words = json.loads(found["explanation"].to_pylist()[0])["words"]
    assert [(word["text"], word["effect"]) for word in words] == [(word["text"], word["effect"]) for word in found["words"].to_pylist()[0]]


def test_vectors_match_the_embedder():
    np = pytest.importorskip("numpy")
    import chumoku

    if not (CHECKPOINTS / "minilm").exists():
        pytest.skip("SKIPPED: no checkpoint here")
    texts = ["a cat", "a dog", None]
    found = arrow.embed(CHECKPOINTS / "minilm")(pa.table({"text": texts}))
    assert found["embedding"].to_pylist()[2] is None
    vectors = np.array(found["embedding"].to_pylist()[:2], np.float32)
    assert np.array_equal(vectors, chumoku.Embedder(CHECKPOINTS / "minilm").transform(texts[:2]))


def test_functions_can_be_sent_to_other_processes(models):
    table = pa.table({"text": TEXTS})
    answers = arrow.predict(models / "classes").load()
    copy = pickle.loads(pickle.dumps(answers))
    assert len(pickle.dumps(answers)) < 2000
    assert copy(table).equals(answers(table))


def test_importing_chumoku_does_not_import_pyarrow():
    code = "import sys, chumoku; print([name for name in ('pyarrow', 'ray', 'pyspark', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_missing_packages_are_reported(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('not here')")
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')")
    run = lambda name: subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, cwd=tmp_path).stderr
    assert 'pip install "ray[data]" pyarrow aiohttp' in run("chumoku.ray")
    assert "pip install pyarrow" in run("chumoku.arrow")
