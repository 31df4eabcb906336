"""`Translator`, `LanguageModel`, `Autoencoder` and `Embedder` match the command's models."""

import csv
import itertools
import json
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
import time

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHECKPOINTS = pathlib.Path(os.environ.get("CHUMOKU_CHECKPOINTS", "nowhere"))
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
needs_command = pytest.mark.skipif(
    not pathlib.Path(os.environ.get("CHUMOKU_PROGRAM", ROOT / "target" / "release" / "chumoku")).exists(),
    reason="no command was built",
)


def command(*words, **keywords):
    program = os.environ.get("CHUMOKU_PROGRAM", ROOT / "target" / "release" / "chumoku")
    return subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True, **keywords).stdout


def pairs(n=200):
    words = [(DIGITS[i % 10], DIGITS[i // 10 % 10], DIGITS[(7 * i) % 10]) for i in range(n)]
    return [" ".join(each) for each in words], ["".join(str(DIGITS.index(word)) for word in each) for each in words]


def text(n=240):
    things = ["cat", "dog", "bird", "fish", "horse"]
    return "\n".join(f"The {things[i % 5]} saw the {things[i // 5 % 5]} and went on its way." for i in range(n))


@pytest.fixture(scope="module")
def translator():
    return chumoku.Translator(epochs=12, progress=None).fit(*pairs())


@pytest.fixture(scope="module")
def writer():
    return chumoku.LanguageModel(epochs=3, progress=None).fit(text())


@needs_command
def test_the_translator_matches_the_command(tmp_path):
    sources, targets = pairs()
    with open(tmp_path / "pairs.csv", "w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *zip(sources, targets)])
    command("train", tmp_path / "pairs.csv", "--task", "translate", "--epochs", 2, "--out", tmp_path / "model", "--threads", 2)
    ours = chumoku.Translator(epochs=2, progress=None, out=tmp_path / "ours").fit(sources, targets)
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes(), name
    found = json.loads(command("translate", tmp_path / "model", "one two three", "--json"))
    assert ours.predict(["one two three"]) == [found["translation"]]


@needs_command
def test_the_language_model_matches_the_command(tmp_path):
    (tmp_path / "text.jsonl").write_text("".join(json.dumps({"text": text()}) + "\n" for _ in range(1)))
    command("train", tmp_path / "text.jsonl", "--task", "lm", "--epochs", 1, "--out", tmp_path / "model", "--threads", 2)
    ours = chumoku.LanguageModel(epochs=1, progress=None).fit(text())
    ours.save(tmp_path / "ours")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes(), name
    found = json.loads(command("generate", tmp_path / "model", "The cat", "--max-tokens", 20, "--json"))
    assert "".join(ours.generate("The cat", max_tokens=20)) == found["text"]


def test_translation(translator, tmp_path):
    assert translator.metrics_["scores"]["pairs"] > 0
    found = list(translator.translate(["four two one", "nine nine six"], beam=3))
    assert all(isinstance(each, str) and 1 <= len(each.hypotheses) <= 3 and not each.is_cut for each in found)
    assert len(found[0].hypotheses) == 3
    assert list(translator.translate(["four two one", "nine nine six"])) == translator.predict(["four two one", "nine nine six"])
    assert found[0] == found[0].hypotheses[0][0] and found[0].hypotheses[0][1] >= found[0].hypotheses[-1][1]
    assert pickle.loads(pickle.dumps(found[0])).hypotheses == found[0].hypotheses
    # Only as much of an endless stream is read as needed.
    stream = translator.translate(itertools.cycle(["one one one"]))
    assert next(stream) == translator.predict(["one one one"])[0]
    scores = translator.evaluate(*pairs(40))
    assert scores["pairs"] == 40 and translator.score(*pairs(40)) == scores["chrf"]
    again = pickle.loads(pickle.dumps(translator))
    assert again.predict(["three one two"]) == translator.predict(["three one two"])
    translator.save(tmp_path / "model")
    assert chumoku.Translator.load(tmp_path / "model").predict(["three one two"]) == again.predict(["three one two"])
    assert repr(translator) == "Translator(epochs=12, progress=None)"
    with pytest.raises(ValueError, match="row 1: expected some characters"):
        translator.predict(["one two", " "])
    assert "<table>" in translator._repr_html_()


@needs_command
def test_the_autoencoder_matches_the_command(tmp_path):
    (tmp_path / "numbers.txt").write_text("".join(f"{7 * i % 100:02}\n" for i in range(120)))
    folder = tmp_path / "model"
    command("train", tmp_path / "numbers.txt", "--task", "autoencode", "--bottleneck", 8, "--epochs", 2, "--out", folder)
    model, texts = chumoku.Autoencoder(folder), ["07", "42", "99"]
    lines = [json.loads(command("predict", folder, each, "--json")) for each in texts]
    found = model.reconstruct(texts)
    assert found == [each["reconstruction"] for each in lines]
    np.testing.assert_allclose([each.hypotheses[0][1] for each in found], [each["score"] for each in lines], rtol=1e-6)
    codes = [json.loads(command("embed", folder, each))["embedding"] for each in texts]
    np.testing.assert_allclose(model.transform(texts), codes, rtol=1e-6)
    assert model.transform(texts).shape == (3, 8) and list(model.get_feature_names_out())[-1] == "autoencoder7"
    with pytest.raises(ValueError, match="nothing to explain"):
        model.explain("07")
    with pytest.raises(ValueError, match="beam"):
        model.reconstruct(texts, beam=0)
    with pytest.raises(ValueError, match="autoencoder"):
        chumoku.Embedder(folder).transform(texts)


def test_translations_are_explained(translator):
    found = translator.explain("four two one", target="421")
    assert found.target == "421" and "".join(found.source_words).startswith("four")
    layers, heads, rows, columns = found.attention.shape
    assert (rows, columns) == (len(found.target_words), len(found.source_words)) == (len(found.effects), len(found.effects[0]))
    np.testing.assert_allclose(found.attention.sum(-1), 1, atol=1e-4)
    assert found.effects[0][-1] is None and "<table>" in found._repr_html_()
    assert "four" in found.page("ja")


def test_encoder_and_decoder_of_a_translator_are_patched(translator):
    found = translator.explain("four two one", patch="nine two six", lens=True)
    count = len(found.patching["aligned"])
    layers = len(found.patching["feed_forward"]) // count
    assert len(found.patching["residual"]) == (layers + 1) * count and len(found.lens["depths"]) > 1
    changed = [i for i, (a, b) in enumerate(zip(found.patching["tokens"], found.patching["other_tokens"])) if a != b]
    # Equal tokens change nothing before the first layer.
    assert changed and all(abs(x) < 1e-3 for i, x in enumerate(found.patching["residual"][:count]) if i not in changed)
    decoder = found.patching["decoder"]
    tokens = len(decoder["tokens"])
    assert decoder["tokens"][0] == "[START]" and len(decoder["cross_heads"]) == len(decoder["heads"])
    # Both read the same target tokens; after the last layer, the last one holds the answer.
    assert all(abs(x) < 1e-3 for x in decoder["residual"][:tokens]) and abs(decoder["residual"][-1] - 1) < 1e-3
    assert '"patching":{' in found.page() and pickle.loads(pickle.dumps(found)).patching == found.patching
    assert translator.explain("four two one", lens=False).lens is None
    with pytest.raises(ValueError, match="the same translation"):
        translator.explain("four two one", patch="four two one")
    with pytest.raises(ValueError, match="the other text is empty"):
        translator.explain("four two one", patch=" ")
    # The alignment is refused before the translation is explained, which is too long.
    with pytest.raises(ValueError, match="align: "):
        translator.explain("four two one", "4" * 999, patch="four one one", align="99:1")


def test_generation(writer):
    pieces = writer.generate("The dog", max_tokens=30, seed=1)
    first = next(pieces)
    rest = list(pieces)
    assert isinstance(first, str) and pieces.stop in ("end", "max_tokens")
    assert first + "".join(rest) == "".join(writer.generate("The dog", max_tokens=30, seed=1))
    assert list(pieces) == [], "what has ended stays so"
    greedy = "".join(writer.generate("The dog", max_tokens=10, temperature=0))
    assert greedy == "".join(writer.generate("The dog", max_tokens=10, temperature=0, seed=9))
    # An abandoned text stops being generated. Many of them leave no threads behind.
    before = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0
    for _ in range(20):
        next(writer.generate("The", max_tokens=10_000))
    for _ in range(3000):
        time.sleep(0.02)
        if not before or len(os.listdir("/proc/self/task")) <= before + 2:
            break
    else:
        raise AssertionError("threads go on writing texts that nobody reads")


def test_language_models_score_and_explain_texts(writer, tmp_path):
    scores = writer.evaluate([text(20)])
    assert scores["loss"] < writer.evaluate(["Quite other words, zyx qwv, stand here instead."])["loss"]
    assert writer.score([text(20)]) == -scores["loss"]
    found = writer.explain("The cat saw the")
    assert len(found.probabilities) == 10 and found.data["causal"] and found.words[1:]
    assert found.attention.ndim == 4 and "leave-one-out" in found.page()
    assert found.patching is None and len(found.lens["depths"]) == found.data["layers"] + 1
    aligned = writer.explain("The cat saw the", patch="The dog", align="1:1", lens=False)
    assert aligned.lens is None and aligned.patching["aligned"] == [[0, 0]]
    again = pickle.loads(pickle.dumps(writer))
    assert list(again.generate("The", max_tokens=9)) == list(writer.generate("The", max_tokens=9))
    with pytest.raises(ValueError, match="chat template"):
        list(writer.reply("Hello"))
    writer.save(tmp_path / "base")
    further = chumoku.LanguageModel(epochs=1, from_pretrained=tmp_path / "base", progress=None).fit([text(60), text(80)])
    assert "".join(further.generate("The", max_tokens=5))


def test_generation_does_not_continue_in_a_child_process(writer):
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    pieces = writer.generate("The", max_tokens=100)
    next(pieces)
    child = os.fork()
    if child == 0:
        try:
            next(pieces)
        except RuntimeError as error:
            os._exit(0 if "call generate again" in str(error) else 2)
        except BaseException:
            os._exit(3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(pieces)


def test_errors_name_the_problem(translator, writer, tmp_path):
    for fit, error, match in [
        (lambda: chumoku.Translator().fit(["a"], ["b", "c"]), ValueError, "a translation for each of 1 texts, got 2"),
        (lambda: chumoku.Translator().fit(["a", None], ["b", "c"]), TypeError, "row 1: expected a text, got nothing"),
        (lambda: chumoku.Translator().fit(["a", "b"], ["b", " "]), ValueError, "row 1: .* empty translation"),
        (lambda: chumoku.Translator(tokens="words", progress=None).fit(*pairs()), ValueError, "words"),
        (lambda: chumoku.LanguageModel(progress=None).fit(["short"]), ValueError, "at least 1000 characters"),
        (lambda: chumoku.LanguageModel(progress=None, tokens="syllables").fit(text()), ValueError, "tokens: expected one of"),
        (lambda: chumoku.LanguageModel(progress=None, freeze="all", lora=8, from_pretrained=tmp_path).fit(text()), ValueError, "not both"),
        (lambda: chumoku.LanguageModel(progress=None, from_pretrained=tmp_path).fit(text()), ValueError, str(tmp_path)),
        (lambda: chumoku.Translator().translate(["a"]), ValueError, "has not been fitted"),
        (lambda: translator.translate("one"), TypeError, "put it into a list"),
        (lambda: next(translator.translate([3])), TypeError, "row 0: expected a text, got int 3"),
        (lambda: translator.translate(["one"], beam=0), ValueError, "beam: expected a whole number from 1"),
        (lambda: writer.generate(3), TypeError, "prompt: expected a text"),
        (lambda: writer.generate("a", temperature=-1.0), ValueError, "temperature"),
        (lambda: writer.generate("a", top_p=0.0), ValueError, "top.p"),
        (lambda: writer.generate("a", max_tokens=-1), ValueError, "max_tokens: expected a whole number from 0 on, got -1"),
        (lambda: writer.score([]), ValueError, "some documents"),
        (lambda: writer.reply([{"role": "user"}]), TypeError, "message 0: expected a dictionary with role and content"),
        (lambda: chumoku.LanguageModel.load(tmp_path / "nowhere"), ValueError, "nowhere"),
        (lambda: chumoku.Embedder(tmp_path).transform(["a"]), ValueError, str(tmp_path)),
    ]:
        with pytest.raises(error, match=match):
            fit()
    translator.save(tmp_path / "translator")
    with pytest.raises(ValueError, match="translator"):
        chumoku.LanguageModel.load(tmp_path / "translator")


def test_a_folder_that_changes_is_never_mixed(translator, tmp_path):
    translator.save(tmp_path / "model")
    loaded = chumoku.Translator.load(tmp_path / "model")
    pickle.dumps(loaded)
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="has changed since it was read"):
        pickle.dumps(loaded)
    assert loaded.predict(["one two three"])


def test_interrupted_generation():
    """Ctrl-C during generation raises at once."""
    program = """
        import chumoku, os, signal, threading
        things = ["cat", "dog", "bird"]
        text = chr(10).join(f"The {things[i % 3]} saw the {things[i // 3 % 3]} again." for i in range(100))
        model = chumoku.LanguageModel(epochs=1, progress=None).fit(text)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                for _ in model.generate("The", max_tokens=10**9):
                    pass
        except KeyboardInterrupt:
            print("interrupted")
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert found.stdout == "interrupted\n", found.stderr


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="CHUMOKU_CHECKPOINTS names no folder of published models")
def test_embeddings():
    embedder = chumoku.Embedder(CHECKPOINTS / "minilm")
    texts = ["A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell."]
    found = embedder.transform(texts)
    assert found.shape == (3, 384) and found.dtype == np.float32
    np.testing.assert_allclose((found**2).sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(embedder.encode(texts[1:2])[0], found[1])
    theirs = [json.loads(line)["embedding"] for line in command("embed", CHECKPOINTS / "minilm", *texts).splitlines()]
    np.testing.assert_array_equal(np.asarray(theirs, np.float32), found)
    best = embedder.nearest(["A kitten on a carpet."], texts, top=2)[0]
    assert [each.row for each in best] == [1, 0] and best[0].similarity > best[1].similarity > 0
    why = embedder.explain(texts[0], texts[1])
    assert abs(why.similarity - float(found[0] @ found[1])) < 1e-4 and "mat" in why.words
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.transform(texts), found)
    with pytest.raises(ValueError, match="no prompts"):
        chumoku.Embedder(CHECKPOINTS / "minilm", prompt="query").transform(texts)
    assert embedder.get_feature_names_out()[-1] == "embedder383"
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(sklearn.base.clone(embedder), LogisticRegression(C=100.0))
    assert model.fit(texts * 5, ["cat", "cat", "money"] * 5).predict(["The stock market rose today."]).tolist() == ["money"]


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="CHUMOKU_CHECKPOINTS names no folder of published models")
def test_a_published_language_model():
    model = chumoku.LanguageModel.load(CHECKPOINTS / "smollm2")
    said = "".join(model.generate("The capital of France is", max_tokens=8, temperature=0))
    words = ["generate", CHECKPOINTS / "smollm2", "The capital of France is", "--max-tokens", 8, "--temperature", 0, "--json"]
    assert said == json.loads(command(*words))["text"] and "Paris" in said


def test_chat_messages(tmp_path, writer):
    """A folder with a chat template replies to messages in the template's format."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    words = [chr(i) for i in range(32, 127)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(["<|end|>", *words])}, []))
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}assistant:"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "eos_token": "<|end|>"}))
    model = chumoku.LanguageModel.load(tmp_path)
    said = "".join(model.reply("Hi", max_tokens=5, temperature=0))
    assert said == "".join(model.reply([{"role": "user", "content": "Hi"}], max_tokens=5, temperature=0))
    assert said.strip() == "".join(model.generate("user: Hi assistant:", max_tokens=5, temperature=0)).strip()


def test_every_argument_of_a_translator_has_an_effect(translator):
    texts = ["four two one", "nine nine six"]
    wide = [each.hypotheses for each in translator.translate(texts, beam=4, length_penalty=0.0)]
    long = [each.hypotheses for each in translator.translate(texts, beam=4, length_penalty=2.0)]
    assert wide[0][0][1] != long[0][0][1]
    cut = next(translator.translate([" ".join(["four"] * 2000)]))
    assert cut.is_cut and not next(translator.translate(texts)).is_cut
    with pytest.raises(TypeError, match="row 257"):
        list(translator.translate(["one"] * 257 + [None]))
    again = chumoku.Translator(epochs=1, progress=None).fit(*pairs(60))
    with pytest.raises(ValueError):
        again.fit(["a"], ["b"])
    with pytest.raises(ValueError, match="has not been fitted"):
        again.predict(["a"])


def test_every_argument_of_a_language_model_has_an_effect(writer, tmp_path):
    written = lambda **how: "".join(writer.generate("The", max_tokens=40, **how))
    assert len({written(seed=seed, temperature=2.0) for seed in range(4)}) > 1
    greedy = written(temperature=0)
    assert written(temperature=2.0, top_k=1) == greedy == written(temperature=2.0, top_p=1e-6)
    assert written(temperature=2.0, seed=1) != greedy
    assert writer.generate("The", max_tokens=3).stop is None
    pieces = writer.generate("The", max_tokens=3)
    "".join(pieces)
    assert pieces.stop == "max_tokens"
    writer.save(tmp_path / "model")
    with pytest.raises(ValueError, match="precision"):
        chumoku.LanguageModel.load(tmp_path / "model", precision="exact")


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="CHUMOKU_CHECKPOINTS names no folder of published models")
def test_every_argument_of_an_embedder_has_an_effect():
    texts = ["A cat sits on the mat.", "Shares fell."]
    long = chumoku.Embedder(CHECKPOINTS / "minilm", normalize=False).transform(texts)
    assert (abs((long**2).sum(1) - 1) > 0.1).all()
    found = chumoku.Embedder(CHECKPOINTS / "minilm", normalize=False).nearest(["cat"], texts, top=1)[0][0]
    assert found.row == 0 and found.text == texts[0] and 0 < found.similarity < 1
    rough = chumoku.Embedder(CHECKPOINTS / "minilm", precision="medium").transform(texts)
    exact = chumoku.Embedder(CHECKPOINTS / "minilm", precision="highest").transform(texts)
    assert 0 < abs(rough - exact).max() < 0.05
