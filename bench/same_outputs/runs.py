"""Every run of the command that `bench/same-outputs` compares, in the order in which they run."""

import shlex
from typing import NamedTuple

TEXT = "Slow, cold and not worth the money."
JA = "二度と行きません。"


class Run(NamedTuple):
    """A run of the command. Runs whose names begin with `slow-` take minutes."""

    name: str
    args: list[str]
    # The expected exit code; None if several are possible.
    code: int | None = 0
    # The file for its standard input.
    stdin: str = "/dev/null"
    # A line on standard error that ends the run.
    until: str | None = None


class Kind(NamedTuple):
    """A kind of model: its folder, texts for a command line, a labeled file, more arguments, unsupported commands."""

    folder: str
    texts: str
    rows: str
    more: str = ""
    reading: str = ""
    is_network: bool = True
    is_tagger: bool = False


REVIEWS = f"'{TEXT}' '{JA}'"
TOPICS = "'the soup and the ticket again' 'the team and the match'"
PAIR = "'A dog runs on day 3.' 'A dog runs.'"
MEAL = "'The meal was bland.'"
MEAL_SET = "--set price=350 --set shop=Ueno --set date=2024-05-01"
VISITS = "'Visit 5: the soup and the music.' 'Visit 6: the mood of that day.'"
ROOM = "'Room 5: food good, staff kind, bath plain, street quiet.'"
NAMES = "'Greta Moore works in Oslo.' 'Nobody waits now.'"
VERDICT = "'the film was really good on day 3'"
FILM = "'the film was good' 'bad food'"
LM_TEXT = "'the cat saw'"

# Predictors: models from scratch, by task and network, then fine-tuned encoders, then published models.
PREDICTORS = [
    Kind("classes", REVIEWS, "test.csv"),
    *(Kind(name, REVIEWS, "test.csv") for name in ["rnn", "lstm", "gru"]),
    Kind("ngrams", REVIEWS, "test.csv", is_network=False),
    *(Kind(f"encoder-{name}", REVIEWS, "test.csv") for name in ["rotary", "alibi", "learned", "none"]),
    Kind("topics", TOPICS, "topics-test.csv", is_network=False),
    Kind("tree", TOPICS, "tree.csv"),
    Kind("tree-ngrams", TOPICS, "tree.csv", is_network=False),
    Kind("tree-colons", TOPICS, "tree-colons.csv", is_network=False),
    Kind("tree-file", TOPICS, "old.csv", is_network=False),
    Kind("pairs", PAIR, "pairs.csv"),
    Kind("pairs-ngrams", PAIR, "pairs.csv", is_network=False),
    Kind("pairs-score", PAIR, "pairs-score.csv"),
    Kind("labels", VISITS, "labels.jsonl"),
    Kind("labels-columns", VISITS, "labels.csv", reading="--labels food,noise,price,staff"),
    Kind("labels-ngrams", VISITS, "labels.tsv", reading="--separator '|'", is_network=False),
    Kind("labels-tree", VISITS, "labels-tree.jsonl"),
    Kind("ratings", ROOM, "ratings.csv"),
    Kind("ratings-ngrams", ROOM, "ratings.csv", is_network=False),
    Kind("measures", ROOM, "measures.csv"),
    Kind("columns", MEAL, "meals.csv", MEAL_SET, "--label label"),
    Kind("columns-ngrams", MEAL, "meals.csv", MEAL_SET, "--label label", is_network=False),
    Kind("columns-score", MEAL, "meals.csv", "--set price=350", "--label stars", is_network=False),
    Kind("names", NAMES, "names-test.conll", is_tagger=True, is_network=False),
    Kind("names-spans", NAMES, "names.jsonl", is_tagger=True, is_network=False),
    Kind("speech", NAMES, "speech.conll", is_tagger=True, is_network=False),
    Kind("towns", "'田中は東京に住む。'", "towns.jsonl", is_tagger=True, is_network=False),
    *(Kind(f"from-{name}", VERDICT, "verdicts.csv") for name in ["bert", "distilbert", "roberta", "xlm", "modernbert", "base"]),
    Kind("from-lora", VERDICT, "verdicts.csv"),
    Kind("from-pairs", PAIR, "pairs.csv"),
    Kind("from-labels", VISITS, "labels.jsonl"),
    Kind("from-ratings", ROOM, "ratings.csv"),
    Kind("from-tree", TOPICS, "tree.csv"),
    Kind("from-columns", MEAL, "meals.csv", "--set price=350", "--label label"),
    Kind("from-names", NAMES, "names.jsonl", is_tagger=True),
    Kind("bert_classifier", FILM, "published.csv"),
    Kind("distilbert_classifier", FILM, "published.csv"),
    Kind("roberta_classifier", FILM, "published.csv"),
    Kind("modernbert_classifier", FILM, "published.csv"),
]
TRANSLATORS = [
    Kind("words", "'four two nine'", "words.en,words.num"),
    Kind("words-table", "'four two nine' 'one'", "words.tsv"),
    Kind("marian", "'t5 t9 t30' '>>fra<< t5'", "marian-pairs.tsv"),
]
WRITERS = [
    Kind("writer", LM_TEXT, "page.txt"),
    Kind("writer-subwords", LM_TEXT, "page.txt"),
    *(Kind(name, "'t3 t7 t11'", "tokens.txt") for name in ["llama", "llama_scaled", "mistral", "qwen2", "qwen3", "gpt2", "from-llama"]),
]
# Folders that `train` did not write have no report.
UNTRAINED = [
    *(f"{name}_classifier" for name in ["bert", "distilbert", "roberta", "modernbert"]), "marian", "llama", "llama_scaled",
    "mistral", "qwen2", "qwen3", "gpt2", "bert", "bert_pair", "xlm_roberta", "static",
]
LEARNED_POSITIONS = ["bert", "bert_pair", "xlm_roberta", "base", "from-names"]
ENCODERS = [Kind(name, FILM, "corpus.csv") for name in ["bert", "bert_pair", "xlm_roberta", "base", "static"]]


def run(name: str, args: str, code: int | None = 0, stdin: str = "/dev/null", until: str | None = None) -> Run:
    return Run(name, shlex.split(args), code if until is None else -9, stdin, until)


def all_runs(commands: list[str]) -> list[Run]:
    """Yields all runs. `commands` are the program's, for the runs of each."""
    parts = [trained(), trained_further(), predicted(), explained(), traced(), translated(), written(), embedded(), examined()]
    found = [*(one for part in parts for one in part), *numbers(), *measured(), *served(), *refused(commands)]
    names = [one.name for one in found]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    return found


def trained():
    def train(name, args, code=0):
        return run(f"train-{name}", f"train {args}", code)

    yield train("classes", f"rows.csv --valid valid.csv --test test.csv --out classes --epochs 2 --seed 7 --watch '{TEXT}'")
    yield train("built-in", "--builtin reviews --out built-in --epochs 1 --json")
    yield train("coin-flips", "--builtin coin-flips --out coin-flips --epochs 1 --json")
    yield train("pronouns", "--builtin pronouns --out pronouns --epochs 2")
    yield train("ja", "rows.csv --out classes-ja --epochs 1 --lang ja")
    for network in ["rnn", "lstm", "gru", "ngrams"]:
        yield train(network, f"rows.csv --out {network} --model {network}" + (" --epochs 1" if network != "ngrams" else ""))
    yield train("transformer", "form.csv --out transformer --model transformer --task classify --epochs 1 --profile")
    for tokens in ["subwords", "characters", "words"]:
        yield train(f"tokens-{tokens}", f"form.csv --out tokens-{tokens} --tokens {tokens} --epochs 1")
    for precision in ["highest", "high", "medium"]:
        yield train(f"precision-{precision}", f"form.csv --out {precision} --precision {precision} --epochs 1 --threads 1 --parts 2")
    small = "layers=1,width=32,heads=2,dropout=0.2,token-dropout=0,learning-rate=0.002,batch-tokens=1024,label-smoothing=0,weight-decay=0.05,min-count=1"
    ngrams = "words=2,characters=3,inside-words=2-4,min-texts=1,relevance=1,c=4"
    for positions, pooling in [("rotary", "max"), ("alibi", "first"), ("learned", "mean-sqrt-length"), ("none", "mean")]:
        settings = f"{small},{ngrams},positions={positions},pooling={pooling},epochs=2"
        yield train(f"encoder-{positions}", f"rows.csv --out encoder-{positions} --settings {settings}")
    for name, settings in [("hard", "attention=hard"), ("beta", "attention=soft,beta=0.5,learn-beta=yes"), ("fixed-beta", "beta=2,learn-beta=no")]:
        yield train(f"attention-{name}", f"rows.csv --out attention-{name} --settings {small},{settings},epochs=2")
    for form, file in [("csv", "form.csv"), ("csv-gz", "form.csv.gz"), ("tsv", "form.tsv"), ("jsonl", "form.jsonl"), ("json", "form.json")]:
        yield train(f"format-{form}", f"{file} --format {form.split('-')[0]} --model ngrams --out form-{form}")
    yield train("format-parquet", "form.parquet --format parquet --model ngrams --out form-parquet")
    yield train("format-excel", "form.xlsx --format excel --sheet Reviews --model ngrams --out form-excel")
    yield train("format-fasttext", "form.ft --format fasttext --model ngrams --out form-fasttext")
    yield train("format-text", "book.txt --format text --task lm --epochs 1 --out form-text")
    yield train("format-odd", "odd.csv --encoding cp932 --delimiter ';' --text 本文 --label 評価 --skip-bad-rows --model ngrams --out form-odd")
    yield train("format-header", "form.tsv form.tsv --header yes --missing 'NaN,?' --merge-labels --model ngrams --out form-header")
    yield run("train-stdin", "train - --model ngrams --out form-stdin", stdin="form.csv")
    for weights in ["balanced", "equal", "positive=5"]:
        yield train(f"weights-{weights}", f"rows.csv --class-weights {weights} --model ngrams --out weights-{weights.split('=')[0]}")
    yield train("weights-network", "form.csv --class-weights positive=2,negative=1 --epochs 1 --out weights-network")
    yield train("optimize", "rows.csv --optimize macro-f1 --model ngrams --out optimize")
    yield train("optimize-network", "form.csv --optimize macro-f1 --epochs 1 --out optimize-network")
    yield train("folds", "rows.csv --folds 3 --model ngrams --out folds")
    yield train("folds-network", "form.csv --folds 2 --epochs 1 --out folds-network")
    yield train("tune", "rows.csv --tune 3 --model ngrams --out tuned")
    yield train("tune-network", f"form.csv --tune 2 --epochs 1 --settings {ngrams},tokens=characters --out tuned-network")
    yield train("resume", "form.csv --out resumed --epochs 1 --resume")
    yield train("force", "form.csv --out resumed --epochs 1 --force --seed 1")
    yield train("topics", "topics.csv --test topics-test.csv --model ngrams --out topics")
    yield train("tree", "tree.csv --out tree --epochs 1")
    yield train("tree-ngrams", "tree.csv --out tree-ngrams --model ngrams --hierarchy /")
    yield train("tree-colons", "tree-colons.csv --out tree-colons --model ngrams --hierarchy ::")
    yield train("tree-file", "old.csv --out tree-file --model ngrams --hierarchy parents.csv")
    yield train("tree-none", "tree.csv --out tree-none --model ngrams --hierarchy none")
    yield train("pairs", "pairs.csv --out pairs --epochs 1")
    yield train("pairs-ngrams", "pairs.csv --text premise,hypothesis --out pairs-ngrams --model ngrams")
    yield train("pairs-score", "pairs-score.csv --task score --out pairs-score --epochs 1")
    yield train("labels", "labels.jsonl --out labels --epochs 1")
    yield train("labels-columns", "labels.csv --labels food,noise,price,staff --out labels-columns --epochs 1")
    yield train("labels-ngrams", "labels.tsv --task labels --separator '|' --out labels-ngrams --model ngrams")
    yield train("labels-tree", "labels-tree.jsonl --out labels-tree --epochs 1")
    yield train("ratings", "ratings.csv --task score --out ratings --epochs 1")
    yield train("ratings-ngrams", "ratings.csv --task score --out ratings-ngrams --model ngrams")
    yield train("measures", "measures.csv --out measures --epochs 1")
    yield train("columns", "meals.csv --label label --columns price,shop,date --out columns --epochs 1")
    yield train("columns-ngrams", "meals.csv --label label --columns price:number,shop:category,date:date --out columns-ngrams --model ngrams")
    yield train("columns-score", "meals.csv --task score --label stars --columns price --out columns-score --model ngrams")
    yield train("names", "names.conll --test names-test.conll --out names")
    yield train("names-spans", "names.jsonl --task tag --out names-spans --epochs 5")
    yield train("speech", "speech.conll --out speech")
    yield train("towns", "towns.jsonl --task tag --out towns")
    # The built-in dates are many. The choices are printed before the first epoch.
    yield run("train-dates", "train --builtin dates --out stopped-dates", until=r"^plan ")
    yield run("slow-train-dates", "train --task translate --out dates --epochs 1")
    yield train("words", "words.en,words.num --out words --epochs 2 --watch 'four two nine\t429'")
    yield train("words-table", "words.tsv --task translate --tokens characters --out words-table --epochs 1")
    yield train("codes", "words.tsv --task autoencode --bottleneck 4 --text source --out codes --epochs 1")
    yield train("codes-wide", "words.tsv --bottleneck 8 --text source --out codes-wide --epochs 1")
    yield train("writer", "book.txt --task lm --out writer --epochs 1 --watch 'the cat'")
    yield train("writer-subwords", "documents.jsonl --task lm --text text --tokens subwords --out writer-subwords --epochs 1")
    yield train("base", "unlabelled.jsonl --task mlm --text text --out base --epochs 2")
    yield train("unlabelled", "verdicts-few.csv --unlabelled unlabelled-few.jsonl --out unlabelled --epochs 1")
    encoders = [("bert", "bert"), ("distilbert", "distilbert_classifier"), ("roberta", "roberta_classifier"), ("xlm", "xlm_roberta")]
    for name, folder in [*encoders, ("modernbert", "modernbert_classifier"), ("base", "base")]:
        yield train(f"from-{name}", f"verdicts.csv --from {folder} --out from-{name} --epochs 1")
    for freeze in ["none", "embeddings", "1", "all"]:
        yield train(f"freeze-{freeze}", f"verdicts.csv --from bert --freeze {freeze} --out freeze-{freeze} --epochs 1")
    yield train("from-lora", "verdicts.csv --from bert --lora 2 --out from-lora --epochs 1")
    yield train("from-pairs", "pairs.csv --from bert --out from-pairs --epochs 1")
    yield train("from-labels", "labels.jsonl --from bert --out from-labels --epochs 1")
    yield train("from-ratings", "ratings.csv --task score --from bert --out from-ratings --epochs 1")
    yield train("from-tree", "tree.csv --from bert --out from-tree --epochs 1")
    yield train("from-columns", "meals.csv --label label --from bert --columns price --out from-columns --epochs 1")
    yield train("from-names", "names.jsonl --task tag --from bert --out from-names --epochs 2")
    yield train("from-names-lora", "names.conll --from distilbert_classifier --lora 2 --out from-names-lora --epochs 1")
    for name in ["llama", "gpt2", "qwen3"]:
        yield train(f"from-{name}", f"tokens.txt --from {name} --out from-{name} --epochs 1")
    yield train("from-llama-lora", "tokens.txt --task lm --from llama --lora 2 --out from-llama-lora --epochs 1")


def trained_further():
    """Continued training of models on new rows."""

    def twice(name, old, new, more="", further=""):
        yield run(f"train-old-{name}", f"train {old} --out old-{name} {more}")
        yield run(f"train-new-{name}", f"train {new} --from old-{name} --out new-{name} {further}")

    epoch = "--epochs 1"
    yield from twice("classes", "old.csv", "new.csv", epoch, epoch)
    yield run("train-new-none", f"train new.csv --from old-classes --old none --out new-none {epoch}")
    yield run("train-new-moved", f"train new.csv --from old-classes --old moved.csv --out new-moved {epoch} --lang ja")
    yield run("train-new-again", f"train topics-test.csv --from new-classes --out new-again {epoch}")
    yield from twice("ngrams", "old.csv", "new.csv", "--model ngrams")
    yield from twice("labels", "labels-old.jsonl", "labels-new.jsonl", epoch, epoch)
    yield from twice("ratings", "ratings.csv", "ratings-new.csv", f"--task score {epoch}", epoch)
    yield from twice("measures", "measures.csv", "measures-new.csv", f"--task score {epoch}", epoch)
    yield from twice("tree", "tree.csv", "tree-new.csv", epoch, epoch)
    yield from twice("tree-file", "old.csv", "new.csv", "--model ngrams --hierarchy parents.csv", "--hierarchy parents-new.csv")
    yield from twice("columns", "meals.csv", "meals-new.csv", f"--label label --columns price,shop {epoch}", epoch)
    yield from twice("names", "names-old.jsonl", "names-new.jsonl", "--task tag")
    yield from twice("names-bert", "names-old.jsonl", "names-new.jsonl", f"--task tag --from bert {epoch}", epoch)
    yield from twice("bert", "old.csv", "new.csv", f"--from bert {epoch}", epoch)
    yield from twice("writer", "book.txt", "documents.jsonl", f"--task lm {epoch}", f"--task lm --text text {epoch}")
    yield run("train-new-encoder", f"train new.csv --from old-bert --old encoder --out new-encoder {epoch}")
    yield run("eval-new-classes", "eval new-classes old.csv --json")
    yield run("predict-new-classes", f"predict new-classes {TOPICS} --json")


def predicted():
    """`predict`, `join`, `eval`, `info`, `count`, `export` and `position` of every predictor."""
    for kind in PREDICTORS:
        name, texts, more = kind.folder, kind.texts, kind.more
        yield run(f"predict-{name}", f"predict {name} {texts} {more}")
        yield run(f"predict-{name}-json", f"predict {name} {texts} {more} --json")
        yield run(f"predict-{name}-rows", f"predict {name} --input {kind.rows}")
        yield run(f"predict-{name}-rows-json", f"predict {name} --input {kind.rows} --json")
        yield run(f"eval-{name}", f"eval {name} {kind.rows} {kind.reading}")
        yield run(f"eval-{name}-ja", f"eval {name} {kind.rows} {kind.reading} --lang ja")
        yield run(f"eval-{name}-json", f"eval {name} {kind.rows} {kind.reading} --json")
        yield run(f"export-{name}", f"export {name} --out {name}.onnx --json", 0 if kind.is_network and not kind.is_tagger else 2)
    yield run("export-default", "export classes")

    yield run("predict-options", f"predict classes {REVIEWS} --top 2 --precision highest --threads 1 --lang ja")
    for precision in ["high", "medium"]:
        yield run(f"predict-{precision}", f"predict classes {REVIEWS} --precision {precision} --json")
    forms = ["csv", "tsv", "jsonl", "json", "parquet", "text"]
    for form in forms:
        yield run(f"predict-form-{form}", f"predict classes --input form.{form.replace('text', 'txt')} --format {form}")
    yield run("predict-form-excel", "predict classes --input form.xlsx --format excel --sheet Reviews")
    yield run("predict-form-fasttext", "predict classes --input form.ft --format fasttext")
    yield run("predict-form-gz", "predict classes --input form.csv.gz --bom --top 2")
    # Every command reads files with the same flags.
    for header in ["yes", "no", "auto"]:
        read = f"--header {header} --missing 'NaN,none' --merge-labels"
        yield run(f"predict-header-{header}", f"predict ngrams --input form.tsv {read}")
        yield run(f"eval-header-{header}", f"eval classes form.tsv {read}", None)
        yield run(f"explain-header-{header}", f"explain ngrams --input form.tsv --json - {read}")
        yield run(f"translate-header-{header}", f"translate words --input form.txt --format text --beam 1 {read}")
        yield run(f"doctor-header-{header}", f"doctor form.tsv {read}")
        yield run(f"nearest-header-{header}", f"nearest bert 'good food' --corpus form.tsv {read}")
        yield run(f"embed-header-{header}", f"embed bert --input form.tsv --header {header}")
        yield run(f"train-header-{header}", f"train form.tsv {read} --model ngrams --out header-{header}")
    yield run("predict-form-odd", "predict ngrams --input odd.csv --encoding cp932 --delimiter ';' --text 本文 --label 評価 --skip-bad-rows")
    yield run("predict-hard", "predict ngrams --input hard.csv")
    yield run("predict-hard-jsonl", "predict ngrams --input hard.jsonl --lang ja")
    yield run("predict-strict", "predict ngrams --input hard.csv --strict", 2)
    yield run("predict-lines", "predict classes", stdin="form.txt")
    yield run("predict-stdin", "predict classes --input - --profile", stdin="form.csv")
    yield run("predict-set", "predict columns --input meals.csv --set price=5000 --json")
    yield run("predict-columns-missing", f"predict columns {MEAL} --set price=350")
    for share in ["0.6", "0.9"]:
        yield run(f"predict-abstain-{share}", f"predict topics --input topics-test.csv --abstain {share}")
        yield run(f"predict-abstain-{share}-json", f"predict topics {TOPICS} 'quux blorf' --abstain {share} --json --lang ja")
    yield run("predict-abstain-tree", f"predict tree-ngrams {TOPICS} --abstain 0.5 --json")
    yield run("predict-abstain-labels", f"predict labels-ngrams {VISITS} --abstain 0.3 --json")
    yield run("predict-threshold", "predict topics --input topics-test.csv --threshold sport=0.9 --json")
    yield run("predict-threshold-labels", f"predict labels {VISITS} --threshold 0.2 --json")
    yield run("predict-precision-at-least", "predict topics --input topics-test.csv --precision-at-least travel=0.8")
    yield run("predict-names-page", "predict names --input names.txt --html names-page.html")
    yield run("predict-from-names-page", f"predict from-names {NAMES} --html from-names-page.html --lang ja")
    shards = {"classes": "hard.csv", "labels": "labels.tsv", "ratings": "ratings.csv", "names": "names.txt", "pairs-ngrams": "pairs.csv", "ngrams": "hard.jsonl"}
    for name, file in shards.items():
        for at in [1, 2, 3]:
            yield run(f"shard-{name}-{at}", f"predict {name} --input {file} --shard {at}/3")
        pieces = " ".join(f"said/shard-{name}-{at}.out" for at in [2, 3, 1])
        yield run(f"join-{name}", f"join {pieces}")
        yield run(f"join-{name}-file", f"join {pieces} --out joined-{name}")
    yield run("join-missing", "join said/shard-classes-1.out said/shard-classes-3.out", 2)

    yield run("eval-options", "eval classes odd.csv --encoding cp932 --delimiter ';' --text 本文 --label 評価 --skip-bad-rows --format csv --precision highest --threads 1")
    for form, precision in [("tsv", "high"), ("jsonl", "medium"), ("json", "high"), ("parquet", "high")]:
        yield run(f"eval-form-{form}", f"eval classes form.{form} --format {form} --precision {precision}")
    yield run("eval-form-excel", "eval classes form.xlsx --format excel --sheet Reviews")
    yield run("eval-form-fasttext", "eval classes form.ft --format fasttext")
    yield run("eval-form-text", "eval writer page.txt --format text")
    yield run("eval-set", "eval columns meals.csv --label label --set price=350 --json")
    yield run("eval-thresholds", "eval topics topics-test.csv --threshold sport=0.9 --precision-at-least travel=0.8 --json")
    yield run("eval-errors", "eval topics topics-test.csv --errors topics-errors.csv --svg topics.svg --png topics.png --pdf topics.pdf --font font.ttf")
    yield run("eval-picture-numbers", "eval ratings ratings.csv --svg ratings.svg --lang ja")

    for kind in [*PREDICTORS, *TRANSLATORS, *WRITERS, *ENCODERS]:
        name = kind.folder
        has_layers = 0 if kind.is_network and not kind.is_tagger and name != "static" else 2
        has_positions = 2 if kind in ENCODERS or name in ("rnn", "lstm", "gru", "encoder-alibi", "encoder-none") else has_layers
        if name in LEARNED_POSITIONS:
            has_positions = 0
        yield run(f"info-{name}", f"info {name}")
        yield run(f"info-{name}-ja", f"info {name} --lang ja")
        yield run(f"info-{name}-json", f"info {name} --json")
        yield run(f"info-{name}-report", f"info {name} --report", 2 if name in UNTRAINED else 0)
        yield run(f"count-model-{name}", f"count --model {name} --length 7 --batch 2", has_layers)
        yield run(f"count-model-{name}-json", f"count --model {name} --json", has_layers)
        yield run(f"position-model-{name}", f"position --model {name} --length 6 --json -", has_positions)
    yield run("info-machine", "info")
    yield run("info-machine-json", "info --json --lang ja")


def explained():
    """`explain` in all its forms, and `film`."""
    for kind in PREDICTORS:
        first, second = (shlex.split(kind.texts) + [""])[:2]
        target = f"--target '{second}'" if "A dog" in first else ""
        name, args = kind.folder, f"explain {kind.folder} '{first}' {target} {kind.more}"
        yield run(f"explain-{name}", args)
        yield run(f"explain-{name}-ja", f"{args} --lang ja")
        yield run(f"explain-{name}-json", f"{args} --json -")
        yield run(f"explain-{name}-page", f"{args} --html page-of-{name}.html --svg page-of-{name}.svg" + ("" if kind.is_network and not kind.is_tagger else " --view effects"))
        yield run(f"explain-{name}-rows", f"explain {name} --input {kind.rows} --json -")
    text = f"explain classes '{TEXT}'"
    for lang in ["en", "ja"]:
        yield run(f"page-{lang}", f"--lang {lang} {text} --html page-{lang}.html --svg page-{lang}.svg --png page-{lang}.png --pdf page-{lang}.pdf --json page-{lang}.json")
        yield run(f"alignment-{lang}", f"--lang {lang} explain words 'four two nine' --html alignment-{lang}.html --svg alignment-{lang}.svg")
        yield run(f"film-{lang}", f"--lang {lang} film classes --html film-{lang}.html --svg film-{lang}.svg")
    yield run("film-head", "film classes --layer 1 --head 2 --png film.png --pdf film.pdf --json film.json --font font.ttf")
    yield run("film-words", "film words --json -")
    yield run("film-curves", "film classes --curves --html curves.html --svg curves.svg --json curves.json")
    yield run("film-codes", "film codes codes-wide --curves --html codes.html --svg codes.svg --json codes.json")
    for name in ["predict codes one --json", "eval codes words.tsv --text source", "embed codes one", "info codes", "count --model codes"]:
        yield run(f"codes-{name.split()[0]}", name)
    yield run("film-writer", "film writer --html film-writer.html")
    views = {"heatmap": "", "lines": "--threshold 0.05", "grid": "", "depth": "--query 3 --key 2", "values": "", "rollout": "", "effects": "", "curves": ""}
    for view, more in views.items():
        yield run(f"view-{view}", f"{text} --view {view} --svg view-{view}.svg {more}")
    for sort in ["place", "role", "entropy", "distance", "previous", "first", "strongest", "sink", "effect"]:
        yield run(f"sort-{sort}", f"{text} --view grid --sort {sort} --svg sort-{sort}.svg")
    yield run("explain-head", f"{text} --layer 1 --head 2 --precision highest --threads 1")
    for precision in ["high", "medium"]:
        yield run(f"explain-{precision}", f"{text} --precision {precision} --json -")
    yield run("explain-without", f"{text} --without 1.1,2.3")
    yield run("explain-without-writer", f"explain writer {LM_TEXT} --without 1.1")
    yield run("explain-without-bert", "explain bert 'the film was good' --target 'bad film' --without 2.1 --lang ja")
    yield run("explain-compare-text", f"{text} --compare-text 'Slow, warm and worth the money.' --html compare-text.html --svg compare-text.svg")
    yield run("explain-generate", f"explain writer {LM_TEXT} --generate 4 --lens --html generate.html")
    yield run("explain-patch", f"{text} --patch 'Slow, warm and worth the money.' --align 1:1 --lens --html patch.html --json patch.json")
    yield run("explain-compare-head", f"{text} --layer 1 --compare-head 1.4 --json -")
    yield run("explain-compare-model", f"{text} --compare-model classes-ja --lang ja")
    for method in ["leave-one-out", "integrated-gradients"]:
        for name in ["classes", "lstm", "from-bert", "bert_classifier"]:
            yield run(f"method-{method}-{name}", f"explain {name} 'the film was good' --method {method} --json -")
        yield run(f"method-{method}-page", f"{text} --method {method} --html {method}.html --lang ja")
    yield run("explain-input", "explain classes --input texts.txt --svg pictures-svg --png pictures-png --pdf pictures-pdf")
    yield run("errors", "explain topics --errors topics-test.csv --top 5 --html errors.html")
    yield run("errors-json", "explain classes --errors test.csv --text text --label label --json - --threads 2")
    yield run("errors-reading", "explain classes --errors odd.csv --encoding cp932 --delimiter ';' --text 本文 --label 評価 --header yes --skip-bad-rows")
    yield run("explain-sheet", "explain classes --input form.xlsx --format excel --sheet Reviews --json -")
    for form in ["csv", "tsv", "jsonl", "json", "parquet", "text"]:
        yield run(f"explain-form-{form}", f"explain ngrams --input form.{form.replace('text', 'txt')} --format {form} --json -")
    yield run("explain-form-fasttext", "explain ngrams --input form.ft --format fasttext --json -")
    yield run("errors-labels", "explain labels-columns --errors labels.csv --labels food,noise,price,staff")
    yield run("errors-separator", "explain labels-ngrams --errors labels.tsv --separator '|' --lang ja")
    yield run("errors-ratings", "explain ratings --errors ratings.csv --top 3 --method leave-one-out")
    yield run("errors-questions", "explain pairs-ngrams --errors pairs.csv --top 3", 0)
    yield run("faithfulness", "explain encoder-none --faithfulness topics-test.csv --seed 3")
    yield run("faithfulness-json", "explain rnn --faithfulness texts.txt --json - --lang ja")
    yield run("explain-label", "explain labels 'the soup was cold' --of-label price --json -")
    yield run("explain-span", "explain names 'Greta Moore works in Oslo.' --span 21:25:person --json -")
    yield run("explain-span-view", "explain from-names 'Greta Moore works in Oslo.' --view heatmap --layer 1 --head 2 --svg span.svg")
    yield run("explain-long", "explain classes --json - '" + "good food and a long way home " * 60 + "'")
    yield run("explain-font", f"{text} --font font.ttf --svg font.svg")
    for kind in [*TRANSLATORS, *WRITERS, *ENCODERS]:
        first = shlex.split(kind.texts)[0]
        is_static = kind.folder == "static"
        name, args = kind.folder, f"explain {kind.folder} '{first}'"
        yield run(f"explain-{name}", args, 2 if is_static else 0)
        yield run(f"explain-{name}-json", f"{args} --json -", 2 if is_static else 0)
        yield run(f"explain-{name}-page", f"{args} --html page-of-{name}.html --json page-of-{name}.json --lang ja", 2 if is_static else 0)
    yield run("explain-target-words", "explain words 'four two nine' --target '42' --view grid --svg words.svg --json -")
    yield run("explain-target-marian", "explain marian 't5 t9' --target 't7 t8' --layer 1 --head 2")
    yield run("explain-target-bert", "explain bert 'the film was good' --target 'bad film' --html similarity.html --svg similarity.svg --json similarity.json")
    yield run("explain-set", f"explain columns {MEAL} --set price=5000 --json -")


def traced():
    """`trace` of examples, files and every kind of model."""
    yield run("trace-examples", "trace --example no-such-example", 2)
    examples = ["book", "by-hand", "cat-and-fish", "causal", "film", "heads", "scaling", "two-tokens", "training-step", "review-loss"]
    for name in examples:
        yield run(f"trace-{name}", f"trace --example {name}")
    for name in ["review-loss", "training-step"]:
        yield run(f"trace-{name}-backward", f"trace --example {name} --backward --format json")
    formats = ["text", "md", "html", "latex", "json", "xlsx"]
    for form in formats:
        yield run(f"trace-form-{form}", f"trace --example heads --format {form} --out heads.{form}")
        yield run(f"trace-backward-{form}", f"trace --example training-step --backward --format {form} --out step.{form} --lang ja")
        yield run(f"trace-classes-{form}", f"trace --model classes --text '{TEXT}' --format {form} --out classes.trace.{form}")
        if form in ("text", "html", "json"):
            yield run(f"trace-beam-{form}", f"trace --model words --text 'four two nine' --beam 2 --format {form} --out beam.{form}")
        if form in ("text", "json"):
            yield run(f"trace-tokens-{form}", f"trace --model classes --text '{TEXT}' --tokens --format {form} --out tokens.{form}")
    for depth in ["shapes", "steps", "all"]:
        yield run(f"trace-depth-{depth}", f"trace --example heads --head 2 --depth {depth} --digits 6 --size 3")
    yield run("trace-input", "trace --input worked/by-hand.json --lang ja")
    yield run("trace-saturation", "trace --saturation --svg saturation.svg")
    for kind in PREDICTORS:
        texts = shlex.split(kind.texts)
        text = "\t".join(texts[:2]) if texts[0].startswith("A dog") else texts[0]
        is_traced = kind.is_network and not kind.is_tagger and kind.folder not in ("rnn", "lstm", "gru")
        yield run(f"trace-model-{kind.folder}", f"trace --model {kind.folder} --text '{text}' --format json", 0 if is_traced else 2)
    yield run("trace-layer", f"trace --model classes --text '{TEXT}' --layer 1 --head 2 --precision highest")
    for precision in ["high", "medium"]:
        yield run(f"trace-{precision}", f"trace --model classes --text '{TEXT}' --precision {precision} --depth steps")
    yield run("trace-classes-gradients", f"trace --model classes --text '{TEXT}' --backward --target negative --format json")
    yield run("trace-encoder-gradients", f"trace --model encoder-rotary --text '{TEXT}' --backward --lang ja")
    yield run("trace-writer-gradients", f"trace --model writer --text {LM_TEXT} --backward --format json")
    for part in ["encoder", "decoder", "cross"]:
        for name, text, target in [("words", "four two nine", "429"), ("marian", "t5 t9", "t7")]:
            yield run(f"trace-{name}-{part}", f"trace --model {name} --text '{text}' --target '{target}' --part {part} --layer 1 --format json")
    yield run("trace-words-gradients", "trace --model words --text 'four two nine' --target 429 --part cross --backward --format json")
    yield run("trace-beam-picture", "trace --model words --text 'four two nine' --beam 3 --svg beam.svg --lang ja")
    yield run("trace-beam-writer", f"trace --model writer --text {LM_TEXT} --beam 2 --steps 3 --format json")
    for kind in [*WRITERS, *ENCODERS]:
        if kind.folder != "static":
            yield run(f"trace-{kind.folder}", f"trace --model {kind.folder} --text {shlex.quote(shlex.split(kind.texts)[0])} --format json")
    for name in ["writer-subwords", "tokens-characters", "tokens-subwords", "words", "llama"]:
        yield run(f"trace-tokens-{name}", f"trace --model {name} --text 'the food was 映画' --tokens --lang ja", None)


def translated():
    for kind in TRANSLATORS:
        name = kind.folder
        yield run(f"translate-{name}", f"translate {name} {kind.texts}")
        yield run(f"translate-{name}-json", f"translate {name} {kind.texts} --json --alignment --beam 3 --n-best 2 --length-penalty 1")
        yield run(f"eval-{name}", f"eval {name} {kind.rows}")
        yield run(f"eval-{name}-ja", f"eval {name} {kind.rows} --lang ja")
        yield run(f"eval-{name}-json", f"eval {name} {kind.rows} --json")
    for form, precision in [("csv", "highest"), ("jsonl", "high"), ("json", "medium"), ("parquet", "high"), ("text", "high")]:
        yield run(f"translate-form-{form}", f"translate words --input words.{form.replace('text', 'txt')} --format {form} --precision {precision}")
    yield run("translate-form-tsv", "translate words --input words.tsv --format tsv --text source --bom --threads 1 --beam 1")
    yield run("translate-form-excel", "translate words --input words.xlsx --format excel --sheet Pairs")
    yield run("translate-form-odd", "translate words --input odd.csv --encoding cp932 --delimiter ';' --text 本文 --skip-bad-rows --beam 1")
    yield run("translate-form-fasttext", "translate words --input form.ft --format fasttext --label 1 --beam 1")
    yield run("translate-strict", "translate words --strict", 2, stdin="words.txt")
    yield run("translate-lines", "translate words --lang ja", stdin="words.txt")


def written():
    for kind in WRITERS:
        name, code = kind.folder, 0
        yield run(f"generate-{name}", f"generate {name} {kind.texts} --max-tokens 20 --seed 3", code)
        yield run(f"generate-{name}-json", f"generate {name} {kind.texts} --max-tokens 12 --temperature 0 --json")
        yield run(f"eval-{name}", f"eval {name} {kind.rows}")
        yield run(f"eval-{name}-ja", f"eval {name} {kind.rows} --lang ja")
        yield run(f"eval-{name}-json", f"eval {name} {kind.rows} --json")
    for precision in ["highest", "high", "medium"]:
        yield run(f"generate-{precision}", f"generate writer --max-tokens 300 --top-k 5 --top-p 0.9 --precision {precision} --threads 1")
    yield run("generate-system", "generate qwen3 't4 t5' --system 't8' --max-tokens 5")
    yield run("generate-no-chat", "generate qwen3 't4 t5' --no-chat --max-tokens 5")


def embedded():
    for kind in ENCODERS:
        yield run(f"embed-{kind.folder}", f"embed {kind.folder} {kind.texts}")
        yield run(f"nearest-{kind.folder}", f"nearest {kind.folder} 'good film' 'bad' --corpus corpus.csv --skip-bad-rows")
        yield run(f"nearest-{kind.folder}-json", f"nearest {kind.folder} 'good film' --corpus corpus.csv --skip-bad-rows --json --top 2")
    for form in ["jsonl", "npy", "safetensors"]:
        yield run(f"embed-form-{form}", f"embed bert --input form.txt --format {form} --out embedded.{form}")
    for form, precision in [("csv", "highest"), ("tsv", "high"), ("jsonl", "medium"), ("json", "high"), ("parquet", "high"), ("text", "high")]:
        file = f"form.{form.replace('text', 'txt')}"
        yield run(f"embed-from-{form}", f"embed bert --input {file} --input-format {form} --precision {precision}")
        yield run(f"nearest-from-{form}", f"nearest bert 'good food' --corpus {file} --format {form} --precision {precision}")
    for form, more in [("excel", "--sheet Reviews"), ("fasttext", "")]:
        file = {"excel": "form.xlsx", "fasttext": "form.ft"}[form]
        yield run(f"embed-from-{form}", f"embed bert --input {file} --input-format {form} {more}")
        yield run(f"nearest-from-{form}", f"nearest bert 'good food' --corpus {file} --format {form} {more}")
    odd = "--encoding cp932 --delimiter ';' --text 本文 --skip-bad-rows --threads 1"
    yield run("embed-odd", f"embed bert --input odd.csv {odd} --label 評価 --missing none --merge-labels --no-normalize")
    yield run("nearest-odd", f"nearest bert '料理' --corpus odd.csv {odd} --label 評価")
    yield run("embed-prompt", "embed xlm_roberta 'good film' --prompt query")
    yield run("nearest-prompts", "nearest xlm_roberta 'good film' --corpus corpus.csv --skip-bad-rows --prompt document --corpus-prompt query --lang ja")
    yield run("nearest-empty", "nearest bert 'good film' --corpus corpus.csv", 2)
    yield run("embed-strict", "embed bert --input corpus.csv --strict", 2)
    yield run("embed-lines", "embed bert", stdin="form.txt")


def examined():
    yield run("doctor", "doctor broken.csv --out doctor --test test.csv --unlabelled form.txt")
    yield run("doctor-ja", "doctor broken.csv --out doctor --force --bom --lang ja --folds 3 --seed 1 --threads 1")
    yield run("doctor-json", "doctor broken.csv --json")
    yield run("doctor-pairs", "doctor pairs.csv --text premise,hypothesis")
    for form in ["csv", "tsv", "jsonl", "json", "parquet"]:
        yield run(f"doctor-form-{form}", f"doctor form.{form} --format {form}")
    yield run("doctor-form-excel", "doctor form.xlsx --format excel --sheet Reviews")
    yield run("doctor-form-fasttext", "doctor form.ft --format fasttext")
    yield run("doctor-form-text", "doctor form.txt --format text", 2)
    yield run("doctor-odd", "doctor odd.csv --encoding cp932 --delimiter ';' --text 本文 --label 評価 --skip-bad-rows")


def numbers():
    """`attend`, `check`, `count`, `position`: no model is needed."""
    heads = "--q-num-heads 2 --kv-num-heads 2"
    yield run("attend", f"attend attend.safetensors {heads}")
    yield run("attend-npz", f"attend attend.npz -o attended.npz {heads} --is-causal=true --threads 1")
    yield run("attend-metadata", "attend attend-in.safetensors --output attended-in.safetensors")
    yield run("attend-override", "attend attend-in.safetensors -o attended-over.npz --is-causal=false --softcap 0 --lang ja")
    yield run("attend-past", "attend attend-past.npz -o attended-past.npz --is-causal")
    flags = ["--scale 2", "--softcap 0.5", "--left-window-size 0", "--right-window-size 1", *(f"--softmax-precision {n}" for n in [1, 10, 11, 16])]
    for flag in [*flags, *(f"--qk-matmul-output-mode {n} --is-causal --softcap 2" for n in range(4))]:
        name = flag.split(" --is")[0].strip("-").replace(" ", "-")
        yield run(f"attend-{name}", f"attend attend.npz -o attended-{name}.safetensors {heads} {flag}")
    worked = "book by-hand cat-and-fish causal film heads scaling school two-tokens training-step review-loss waves"
    files = " ".join(f"worked/{name}.json" for name in worked.split())
    yield run("check", f"check {files}", 1)
    yield run("check-ja", f"check {files} --lang ja", 1)
    yield run("check-json", f"check {files} --json", 1)
    yield run("check-wrong", "check wrong.json", 1)
    networks = ["attention", "additive-attention", "transformer", "decoder", "encoder-decoder", "rnn", "lstm", "gru"]
    for network in networks:
        yield run(f"count-{network}", f"count --network {network} --vocab 100 --length 20" if network != "attention" else "count --network attention --keys 30")
        yield run(f"count-{network}-json", f"count --network {network} --json --lang ja --d-model 64 --heads 4")
    yield run("count-grouped", "count --network decoder --vocab 100 --untied --kv-heads 2 --head-dim 16 --d-ff 300 --layers 3 --positions 64 --pre-norm --no-bias")
    yield run("count-both", "count --network encoder-decoder --vocab 100 --target-vocab 90 --target-length 9 --decoder-layers 2 --batch 4 --length 12")
    yield run("count-recurrent", "count --network lstm --hidden 48 --bidirectional --classes 3 --vocab 100")
    yield run("count-map", "count --network encoder-decoder --vocab 100 --layers 2 --html map.html --svg map.svg --png map.png --pdf map.pdf --font font.ttf")
    yield run("count-plain", "count --network attention --no-qkv-bias --no-output-projection")
    for lang in ["en", "ja"]:
        yield run(f"positions-{lang}", f"position --html positions-{lang}.html --svg positions-{lang}.svg --png positions-{lang}.png --pdf positions-{lang}.pdf --lang {lang}")
    for kind in ["sinusoidal", "rotary"]:
        for view in ["heatmap", "curves", "wavelengths", "similarity"]:
            yield run(f"position-{kind}-{view}", f"position --kind {kind} --view {view} --length 12 --d-model 8 --json position-{kind}-{view}.json --svg position-{kind}-{view}.svg")
    yield run("position-dimensions", "position --length 50 --d-model 512 --dimensions 0-3,10,20 --view curves --svg position-dimensions.svg --json -")
    yield run("position-base", "position --kind rotary --base 500 --json - --font font.ttf --png position-base.png")


def measured():
    """`bench` and `compare`: measurements are masked, the text around them is not."""
    small = "--heads 2 --length 12 --dim 8 --threads 1"
    yield run("bench-attention", f"bench attention {small} --batch 2 --kv-heads 1 --keys 16 --value-dim 4 --causal --window 3 --backward")
    for dtype in ["f32", "bf16", "f16"]:
        yield run(f"bench-attention-{dtype}", f"bench attention {small} --dtype {dtype} --json")
    for precision in ["highest", "high", "medium"]:
        yield run(f"bench-attention-{precision}", f"bench attention {small} --precision {precision} --lang ja")
    for doing in ["train", "infer"]:
        sizes = "--layers 1 --d-model 16 --heads 2 --vocab 50 --batch 3 --threads 1"
        yield run(f"bench-{doing}", f"bench {doing} {sizes} --length 5 --dropout 0.2 --profile" + (" --parts 2" if doing == "train" else " --parts 1"))
        for precision in ["highest", "high", "medium"]:
            yield run(f"bench-{doing}-{precision}", f"bench {doing} {sizes} --lengths lengths.txt --precision {precision} --json")
    # Measuring the times of steps takes minutes. The training before is compared without them.
    def compare(name, args):
        return run(f"compare-{name}", f"compare {args} --epochs 1", until=r"^(timing|計測) ")

    yield compare("options", "odd.csv --encoding cp932 --delimiter ';' --text 本文 --label 評価 --skip-bad-rows --seed 3 --threads 2 --precision highest")
    for form, precision in [("csv", "high"), ("tsv", "medium"), ("jsonl", "high"), ("json", "high"), ("parquet", "high")]:
        yield compare(form, f"form.{form} --format {form} --precision {precision}")
    yield compare("excel", "form.xlsx --format excel --sheet Reviews --lang ja")
    yield compare("fasttext", "form.ft --format fasttext")
    for header in ["yes", "no", "auto"]:
        yield compare(f"header-{header}", f"form.tsv --header {header} --missing none --merge-labels")
    yield run("compare-text", "compare form.txt --format text --epochs 1", 2)
    yield run("slow-compare", "compare form.csv --epochs 1 --svg compare.svg")
    yield run("slow-compare-json", "compare form.csv --epochs 1 --json --lang ja")


def served():
    """Services; `service.py` has the requests of each."""
    models = "classes ngrams tree labels ratings measures names from-names from-bert bert_classifier lstm pairs columns topics bert xlm_roberta static"
    yield run("serve", f"serve {models} words codes marian writer qwen3 --port 0 --threads 1")
    yield run("serve-ja", "serve judge=classes names --port 0 --lang ja --log text --host localhost --threads 2")
    limits = "--max-body 5000 --max-texts 3 --max-chars 100 --max-new-tokens 20 --max-connections 8 --max-answer 100000 --max-held 200000 --max-explain 50 --queue 4 --batch-texts 2 --gather 1"
    times = "--read-timeout 20s --wait-timeout 20s --compute-timeout 40s --drain-timeout 5s"
    yield run("serve-limits", f"serve classes writer --port 0 --log json {limits} {times}")
    yield run("serve-key", "serve classes --port 0 --log off")
    yield run("serve-open", "serve ngrams --port 0 --no-key --host 0.0.0.0")
    yield run("serve-nowhere", "serve nowhere --port 0", 2)


def refused(commands: list[str]):
    """The help of every command, and its errors about unknown flags and missing files."""
    yield run("help", "--help")
    yield run("help-short", "-h")
    yield run("help-ja", "--lang ja --help")
    yield run("version", "--version")
    yield run("nothing", "", 2)
    for command in commands:
        name = command.replace(" ", "-")
        yield run(f"help-{name}", f"{command} --help")
        yield run(f"help-short-{name}", f"{command} -h")
        yield run(f"refuses-flag-{name}", f"{command} --no-such-flag", 2)
        yield run(f"refuses-flag-ja-{name}", f"--lang ja {command} --no-such-flag", 2)
        if not command.startswith("bench"):
            yield run(f"refuses-file-{name}", f"{command} no-such-folder no-such-file", 2)
            yield run(f"refuses-file-ja-{name}", f"--lang ja {command} no-such-folder no-such-file", 2)
    # A model of one kind used as if it were of another.
    asked = {"predict": "x", "translate": "x", "generate": "x", "embed": "x", "explain": "x", "film": "", "export": "", "eval": "form.csv"}
    for command, more in asked.items():
        for name in ["ngrams", "names", "writer", "words", "bert", "classes"]:
            args = f"{command} {name} {more}" + (f" --out refused-{name}.onnx" if command == "export" else "")
            yield run(f"kind-{command}-{name}", args, None)
