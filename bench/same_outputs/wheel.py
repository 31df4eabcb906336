"""Exercises a wheel. `bench/same-outputs` runs it under each interpreter, in the folder of `inputs.py`. It writes
`python/`.

The exit code is 2 if the package has a name, a method or a parameter that is not used here.
"""

import csv
import importlib.util
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import chumoku
import numpy as np

PLACE = Path("python")
SEEN = set()
# A notebook's frame, whose content `page` returns, and arguments that scikit-learn's protocol passes without a use.
NOT_COMPARED = {"show", "X", "y", "input_features"}


class Events(list):
    """Receives training events. Its repr has no address."""

    def __call__(self, event):
        self.append(event)

    def __repr__(self):
        return "Events()"


def keep(name, value):
    """Writes a value: arrays as NumPy does, texts unchanged, everything else as JSON."""
    SEEN.add(type(value).__name__)
    if isinstance(value, np.ndarray) and value.dtype != object:
        np.save(PLACE / f"{name}.npy", value)
    elif isinstance(value, str) and type(value) is str:
        (PLACE / f"{name}.txt").write_text(value, encoding="utf-8")
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain)
        (PLACE / f"{name}.json").write_text(text, encoding="utf-8")


def plain(x):
    if hasattr(x, "_asdict"):
        return x._asdict()
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else repr(x)


def shown(name, found):
    """Writes an explanation, a trace or the like: its numbers, pages, notebook display, and itself after pickling."""
    SEEN.add(type(found).__name__)
    keep(f"{name}-data", found.data)
    keep(f"{name}-repr", repr(type(found).__name__))
    if hasattr(found, "_repr_html_"):
        keep(f"{name}-notebook", found._repr_html_())
    keep(f"{name}-pickled", pickle.loads(pickle.dumps(found)).data == found.data)
    return found


def rows_of(file, *columns):
    with open(file, newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [[row[column] for row in rows] for column in columns]


def objects(file):
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def arrays():
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape).astype(np.float32) for shape in [(2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)])
    mask = random.random((2, 1, 5, 7)) > 0.3
    cases = {
        "plain": {}, "scale": {"scale": 0.3}, "top-left": {"causal": "top_left"}, "bottom-right": {"causal": "bottom_right"}, "at": {"causal": 1},
        "window": {"causal": "bottom_right", "window": (2, None)}, "softcap": {"softcap": 2.0}, "alibi": {"alibi": [0.5, 0.25, 0.1, 0.05]},
        "sinks": {"sinks": np.array([0.1, 0.2, -1, 2], np.float32)}, "mask": {"mask": mask}, "added": {"mask": np.where(mask, 0.5, -2).astype(np.float32)},
        "lengths": {"key_lengths": [3, 7]}, "dropout": {"dropout": 0.3, "seed": 5}, "high": {"precision": "high"}, "medium": {"precision": "medium"},
    }
    for name, options in cases.items():
        keep(f"attention-{name}", chumoku.attention(q, k, v, **options))
    every = chumoku.attention(q, k, v, return_lse=True, return_weights=True, statistics=("mass", "entropy", "top:2"))
    SEEN.update(type(x).__name__ for x in (every, every.statistics))
    for name, found in {"output": every.output, "lse": every.log_sum_exp, "weights": every.weights}.items():
        keep(f"attention-every-{name}", found)
    for name in ["mass", "entropy", "top_keys", "top_weights"]:
        keep(f"attention-every-{name}", getattr(every.statistics, name))
    for kind in [np.float16, np.float64]:
        keep(f"attention-{kind.__name__}", chumoku.attention(*(x.astype(kind) for x in (q, k, v))))
    packed = [random.standard_normal((9, heads, 8)).astype(np.float32) for heads in (4, 2, 2)]
    keep("attention-packed", chumoku.attention(*packed, query_offsets=[0, 4, 9], key_offsets=[0, 4, 9], causal="top_left"))
    for name, options in {"gqa": {"enable_gqa": True}, "mask": {"enable_gqa": True, "attn_mask": mask, "scale": 0.2}, "causal": {"enable_gqa": True, "is_causal": True, "dropout_p": 0.0}}.items():
        keep(f"sdpa-{name}", chumoku.scaled_dot_product_attention(q, k, v, **options))
    chumoku.set_num_threads(2)
    keep("threads", [chumoku.get_num_threads(), chumoku.instruction_set(), chumoku.__version__])


def estimator(name, made, data, asked, *, target=None, **options):
    """Fits, uses, explains, saves, loads and pickles a predictor, and returns it fitted."""
    made.fit(*data, **options)
    keep(f"{name}-predict", made.predict(asked))
    keep(f"{name}-metrics", made.metrics_)
    keep(f"{name}-repr", repr(made))
    keep(f"{name}-notebook", made._repr_html_())
    keep(f"{name}-params", {key: repr(x) for key, x in made.get_params(deep=False).items()})
    made.save(PLACE / name)
    again = type(made).load(PLACE / name)
    keep(f"{name}-loaded", again.predict(asked))
    keep(f"{name}-pickled", pickle.loads(pickle.dumps(made)).predict(asked))
    return made


def classifiers():
    texts, labels = rows_of("rows.csv", "text", "label")
    test = rows_of("test.csv", "text", "label")
    told = Events()
    common = {"epochs": 1, "progress": None}
    events = estimator("classifier", chumoku.TextClassifier(epochs=1, seed=7, out=PLACE / "out", progress=told), (texts, labels), test[0][:9])
    keep("classifier-events", [event for event in told if event["event"] in ("message", "evaluated")])
    keep("classifier-proba", events.predict_proba(test[0]))
    keep("classifier-log-proba", events.predict_log_proba(test[0]))
    keep("classifier-score", [events.score(*test), events.score(*test, sample_weight=range(1, len(test[0]) + 1)), events.n_features_in_])
    routed = chumoku.TextClassifier().set_fit_request(old=True).set_predict_request(abstain=True).set_score_request(sample_weight=True)
    if importlib.util.find_spec("sklearn"):
        keep("classifier-routing", str(routed.get_metadata_routing()))
    keep("classifier-classes", events.classes_)
    found = shown("classifier-explain", events.explain(test[0][0]))
    keep("classifier-attention", found.attention)
    keep("classifier-page", found.page("ja"))
    found.save(PLACE / "explain.html", lang="en")
    keep("classifier-export", events.export(PLACE / "model.onnx"))
    keep("classifier-again", chumoku.TextClassifier(epochs=1, seed=7, out=PLACE / "out", resume=True, progress=None).fit(texts, labels).predict(test[0][:9]))
    for network in ["rnn", "lstm", "gru", "ngrams"]:
        estimator(f"classifier-{network}", chumoku.TextClassifier(model=network, **common), (texts, labels), test[0][:9])
    for tokens in ["subwords", "characters", "words"]:
        estimator(f"classifier-{tokens}", chumoku.TextClassifier(tokens=tokens, precision="highest", **common), (texts, labels), test[0][:9])
    estimator("classifier-settings", chumoku.TextClassifier(settings="layers=1,width=32", folds=2, **common), (texts, labels), test[0][:9])
    estimator("classifier-optimized", chumoku.TextClassifier(model="ngrams", optimize="macro_f1", **common), (texts, labels), test[0][:9])
    merged = chumoku.TextClassifier(model="ngrams", merge_labels=True, missing=["?"], **common)
    estimator("classifier-merged", merged, (texts, [label.title() if i % 4 == 0 else label for i, label in enumerate(labels)]), test[0][:9])
    estimator("classifier-tuned", chumoku.TextClassifier(model="ngrams", tune=2, class_weight={"positive": 2.0}, **common), (texts, labels), test[0][:9])
    estimator("classifier-bert", chumoku.TextClassifier(from_pretrained="bert", freeze="embeddings", **common), (texts, labels), test[0][:9])
    estimator("classifier-lora", chumoku.TextClassifier(from_pretrained="bert", lora=2, **common), (texts, labels), test[0][:9])
    more = chumoku.TextClassifier(from_pretrained=PLACE / "classifier", **common)
    estimator("classifier-further", more, (test[0], ["odd" if i % 3 == 0 else label for i, label in enumerate(test[1])]), test[0][:9], old=(texts, labels))
    keep("classifier-params-set", repr(more.set_params(seed=3)))

    topics = rows_of("topics.csv", "text", "label")
    unsure = chumoku.TextClassifier(model="ngrams", progress=None).fit(*topics)
    keep("topics-abstain", unsure.predict(topics[0][:50], abstain=0.6))
    keep("topics-threshold", unsure.predict(topics[0][:50], threshold={"sport": 0.9}))
    keep("topics-precise", unsure.predict(topics[0][:50], precision_at_least={"travel": 0.8}))
    tree = rows_of("tree.csv", "text", "label")
    estimator("tree", chumoku.TextClassifier(hierarchy="/", **common), tree, tree[0][:9])
    first, second, follows = rows_of("pairs.csv", "premise", "hypothesis", "label")
    pairs = estimator("pairs", chumoku.TextClassifier(**common), (list(zip(first, second)), follows), list(zip(first, second))[:9])
    shown("pairs-explain", pairs.explain((first[0], second[0])))
    shown("pairs-trace", chumoku.trace(model=pairs, text=(first[0], second[0])))
    sets = objects("labels.jsonl")
    said = [row["text"] for row in sets]
    estimator("labels", chumoku.TextClassifier(**common), (said, [row["labels"] for row in sets]), said[:9])
    indicators = np.array([[int(name in row["labels"]) for name in ["food", "noise", "price", "staff"]] for row in sets])
    estimator("indicators", chumoku.TextClassifier(model="ngrams", **common), (said, indicators), said[:9])
    names = ["text", "price", "shop"]
    meals = dict(zip(names, rows_of("meals.csv", *names)))
    asked = {name: column[:9] for name, column in meals.items()}
    beside = estimator("columns", chumoku.TextClassifier(columns=["price", "shop"], text="text", model="ngrams", **common), (meals, rows_of("meals.csv", "label")[0]), asked)
    shown("columns-explain", beside.explain({name: column[0] for name, column in meals.items()}))

    rooms, stars = rows_of("ratings.csv", "text", "rating")
    stars = list(map(float, stars))
    ratings = estimator("ratings", chumoku.TextRegressor(**common), (rooms, stars), rooms[:9])
    keep("ratings-interval", ratings.predict_interval(rooms[:9]))
    keep("ratings-score", ratings.score(rooms, stars))
    shown("ratings-explain", ratings.explain(rooms[0]))
    marked = objects("names.jsonl")
    said, spans = [row["text"] for row in marked], [[tuple(span) for span in row["spans"]] for row in marked]
    tagger = estimator("tagger", chumoku.TextTagger(progress=None), (said, spans), said[:9])
    keep("tagger-score", tagger.score(said, spans))
    SEEN.add(type(tagger.predict([said[0]])[0][0]).__name__)
    shown("tagger-explain", tagger.explain(said[0]))
    keep("tagger-page", shown("tagger-span", tagger.explain("Ben works in Oslo.", span=(13, 17, "place"))).page("en"))
    estimator("tagger-bert", chumoku.TextTagger(from_pretrained="bert", **common), (said, spans), said[:9])
    try:
        chumoku.TextClassifier().predict(["x"])
    except chumoku.NotFittedError as error:
        keep("not-fitted", str(error))
        SEEN.add("NotFittedError")


def others():
    common = {"epochs": 1, "progress": None}
    spelled = [Path(f"words.{end}").read_text().splitlines() for end in ["en", "num"]]
    translator = estimator("translator", chumoku.Translator(**common), spelled, spelled[0][:3])
    found = list(translator.translate(spelled[0][:3], beam=3, length_penalty=1.0))
    SEEN.update(type(one).__name__ for one in found)
    keep("translator-beam", [[one, one.hypotheses, one.is_cut] for one in found])
    keep("translator-scores", [translator.score(*spelled), translator.evaluate(*spelled)])
    alignment = shown("translator-explain", translator.explain("four two one", target="421"))
    keep("translator-attention", alignment.attention)
    keep("translator-page", alignment.page("ja"))
    shown("translator-trace", chumoku.trace(model=translator, text="four two one", target="421", part="decoder", layer=1, head=2))
    keep("marian", list(chumoku.Translator.load("marian").translate(["t5 t9"])))
    book = Path("book.txt").read_text()
    writer = chumoku.LanguageModel(**common).fit(book)
    pieces = writer.generate("the cat", max_tokens=20, temperature=0.7, top_k=9, top_p=0.9, seed=3)
    keep("writer", [list(pieces), pieces.stop, writer.score(book), writer.evaluate([book]), repr(writer)])
    shown("writer-explain", writer.explain("the cat"))
    keep("reply", "".join(chumoku.LanguageModel.load("qwen3").reply([{"role": "user", "content": "t4"}], max_tokens=5, temperature=0.0, top_k=0, top_p=1.0, seed=1)))
    for folder, options in {"bert": {}, "xlm_roberta": {"prompt": "query"}, "static": {"normalize": False, "precision": "high"}}.items():
        embedder = chumoku.Embedder(folder, **options).set_output(transform="default").fit()
        texts = ["the film was good", "bad food", "映画"]
        for name, vectors in {"transform": embedder.transform(texts), "fit": embedder.fit_transform(texts), "encode": embedder.encode(texts)}.items():
            keep(f"embed-{folder}-{name}", vectors)
        near = embedder.nearest(["good"], texts, top=2)
        SEEN.add(type(near[0][0]).__name__)
        keep(f"nearest-{folder}", [near, list(embedder.get_feature_names_out()), repr(pickle.loads(pickle.dumps(embedder)))])
    coder = chumoku.Autoencoder("codes", precision="highest")
    keep("autoencoder", [coder.reconstruct(spelled[0][:3], beam=2), coder.transform(spelled[0][:3]), list(coder.get_feature_names_out())])
    shown("embedder-explain", chumoku.Embedder("bert").explain("the film was good", target="bad film"))


def microscope():
    texts, labels = rows_of("broken.csv", "text", "label")
    (PLACE / "table.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(("a b", "c d", "e f", "g h"), "xyxy")))
    keep("read-table", list(chumoku.read_table(PLACE / "table.csv", text="text", label="label", header=True)))
    checkup = shown("doctor", chumoku.doctor(texts, labels, test=(texts[:3], labels[:3]), unlabelled=texts[20:30], folds=3, seed=1))
    keep("doctor-found", [checkup.wrong_labels, checkup.ranking, repr(checkup), checkup.page("ja")])
    for end in ["html", "csv", "json"]:
        checkup.save(PLACE / f"doctor.{end}", lang="en")
    for name, options in {"book": {}, "heads": {"head": 2}, "training-step": {"backward": True}}.items():
        trace = shown(f"trace-{name}", chumoku.trace(example=name, **options))
        keep(f"trace-{name}-text", [str(trace), trace.text("ja", depth="all", digits=6, size=3), trace.page("ja"), repr(trace), trace.steps])
        for end in ["html", "md", "tex", "txt", "json", "xlsx"]:
            trace.save(PLACE / f"trace-{name}.{end}", lang="en")
    keep("trace-gradient", chumoku.trace("training-step", backward=True).gradient("W_Q", head=None))
    keep("trace-model", chumoku.trace(model="bert", text="the film", layer=1)["weights"])
    example = json.loads(Path("wrong.json").read_text())
    for name, given in {"wrong": example, "file": "worked/by-hand.json"}.items():
        check = chumoku.check(given)
        SEEN.add(type(check).__name__)
        keep(f"check-{name}", [bool(check), str(check), check.steps, check._repr_html_()])
    sizes = {
        "attention": {"length": 10, "keys": 12, "width": 64, "heads": 4, "key_heads": 2, "head_width": 8},
        "transformer": {"batch": 2, "layers": 2, "vocabulary": 50, "classes": 3, "feed_forward": 99, "pre_norm": True, "bias": False},
        "decoder": {"vocabulary": 50, "untied": True},
        "encoder-decoder": {"vocabulary": 50, "target_vocabulary": 40, "target_length": 5, "decoder_layers": 1},
        "lstm": {"hidden": 32, "bidirectional": True},
    }
    for network, options in sizes.items():
        count = shown(f"count-{network}", chumoku.count(network=network, **options))
        keep(f"count-{network}-text", str(count))
    keep("count-model", chumoku.count(model="bert").data)


def arrow():
    import chumoku.arrow
    import pyarrow as pa

    topics = chumoku.TextClassifier(model="ngrams", progress=None, out=PLACE / "arrow-model").fit(*rows_of("topics.csv", "text", "label"))
    table = pa.table({"text": rows_of("topics-test.csv", "text")[0] + [None], "path": ["a"] * 151})
    functions = {
        "predict": chumoku.arrow.predict(PLACE / "arrow-model", column="text", top=2),
        "abstain": chumoku.arrow.predict(PLACE / "arrow-model", abstain=0.6, place=["path"]),
        "threshold": chumoku.arrow.predict(PLACE / "arrow-model", threshold={"sport": 0.9}),
        "embed": chumoku.arrow.embed("bert", normalize=False),
        "explain": chumoku.arrow.explain(PLACE / "arrow-model"),
    }
    for name, answers in functions.items():
        keep(f"arrow-{name}", [answers(table).to_pylist(), str(answers.schema(table.schema))])
        keep(f"arrow-{name}-batches", [batch.to_pylist() for batch in answers.batches(table.to_batches(max_chunksize=20))])


def torch():
    import torch

    import chumoku.torch

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 6, 8, generator=generator).requires_grad_() for _ in range(3))
    chumoku.attention(q, k, v, causal="top_left").square().sum().backward()
    keep("torch-gradients", [x.grad.tolist() for x in (q, k, v)])
    chumoku.torch.activate()
    keep("torch-activated", torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).tolist())
    chumoku.torch.deactivate()
    keep("torch-explain", str(chumoku.torch.explain(q, k, v, dropout_p=0.1)))


def command():
    for args in [["--help"], ["predict", str(PLACE / "classifier"), "good", "--json"], ["predict", "nowhere", "text"]]:
        ran = subprocess.run([sys.executable, "-m", "chumoku", *args], capture_output=True, text=True)
        keep(f"command-{args[0].strip('-')}-{len(args)}", [ran.returncode, ran.stdout, ran.stderr])


def not_used():
    """Returns names, methods and parameters of the package that this file does not use."""
    source = Path(__file__).read_text(encoding="utf-8")
    for name in chumoku.__all__:
        found = getattr(chumoku, name)
        if f"chumoku.{name}" not in source and name not in SEEN:
            yield name
        methods = inspect.getmembers(found, inspect.isroutine) if inspect.isclass(found) else []
        own = [(f"{name}.{method}", x) for method, x in methods if not method.startswith("_") and method not in NOT_COMPARED and (getattr(x, "__module__", None) or "").startswith("chumoku")]
        yield from (label for label, x in own if f".{x.__name__}(" not in source)
        for label, x in [(name, found), *own] if callable(found) else []:
            # A result is made by a function, not by its class.
            if x is found and inspect.isclass(x) and not hasattr(x, "get_params"):
                continue
            optional = [key for key, of in inspect.signature(x).parameters.items() if of.default is not of.empty]
            yield from (f"{label}({key}=)" for key in optional if key not in NOT_COMPARED and f"{key}=" not in source and f'"{key}":' not in source)


def main():
    PLACE.mkdir()
    parts = {"arrays": [], "classifiers": [], "others": [], "microscope": [], "arrow": ["pyarrow"], "torch": ["torch"], "command": []}
    missing = {name for names in parts.values() for name in [*names, "transformers", "ray"] if importlib.util.find_spec(name) is None}
    for name, needs in parts.items():
        if not missing & set(needs):
            globals()[name]()
    # chumoku.transformers and chumoku.ray are never exercised here.
    print(f"not compared in Python: chumoku.transformers, chumoku.ray{''.join(f', chumoku.{name}' for name, needs in parts.items() if missing & set(needs))}", file=sys.stderr)
    forgotten = sorted(set(not_used()))
    for name in forgotten:
        print(f"not compared: chumoku.{name}", file=sys.stderr)
    return 2 if forgotten else 0


if __name__ == "__main__":
    sys.exit(main())
