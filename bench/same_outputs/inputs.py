"""The inputs of `bench/same-outputs`: labeled rows of every task and format, and tiny published models."""

import gzip
import io
import json
import random
import shutil
import struct
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["good", "bad", "film", "food", "the", "was", "##s", "映", "画"]


def write_all(place: Path) -> None:
    """Writes every file and folder into `place`."""
    rows = reviews()
    shutil.copytree(ROOT / "crates" / "chumoku-trace" / "worked", place / "worked", symlinks=False)
    fonts = sorted(Path("/usr/share/fonts").rglob("*Sans.ttf"))
    # Without it, the runs that need it report that.
    shutil.copy(fonts[0], place / "font.ttf") if fonts else None
    classes(place, rows)
    formats(place, rows[:60])
    other_tasks(place)
    texts(place, rows)
    tensors(place)
    published(place)


def reviews() -> list[tuple[str, str]]:
    lines = (ROOT / "crates/chumoku/builtin/reviews.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(text, label) for _, label, text in (line.split("\t", 2) for line in lines)]


def csv(header: str, rows, delimiter=",") -> str:
    def field(x) -> str:
        x = str(x)
        return '"' + x.replace('"', '""') + '"' if set(x) & set(delimiter + '"\n') else x

    return "".join(line + "\n" for line in [header, *(delimiter.join(map(field, row)) for row in rows)])


def json_lines(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def classes(place: Path, rows) -> None:
    """One class per text: plain, with doubtful rows, in a tree, with pairs, with feature columns."""
    draw = random.Random(1)
    pick = draw.choice
    write(place / "rows.csv", csv("text,label", rows[:160]))
    write(place / "valid.csv", csv("text,label", rows[160:200]))
    # Two rows are also in the training file.
    write(place / "test.csv", csv("text,label", rows[200:250] + rows[:2]))

    topics = {"food": ["soup", "bread", "dinner"], "sport": ["goal", "team", "match"], "travel": ["train", "ticket", "station"]}
    names = list(topics)

    def topical(n, names, filler="again"):
        for i in range(n):
            name = names[i % len(names)]
            other = pick(list(topics)) if i % 4 == 0 else name
            yield f"the {pick(topics[name])} and the {pick(topics[other])} {filler} {i}", name

    write(place / "topics.csv", csv("text,label", topical(1500, names)))
    write(place / "topics-test.csv", csv("text,label", topical(150, names, "today")))
    # The rows of a model, and the new rows of its continued training.
    write(place / "old.csv", csv("text,label", topical(150, ["food", "travel"])))
    write(place / "new.csv", csv("text,label", topical(90, ["sport", "travel"], "at last")))
    write(place / "moved.csv", (place / "old.csv").read_text())

    parents = {"food": "daily", "sport": "leisure", "travel": "leisure"}
    tree = [(text, f"{parents[name]}/{name}") for text, name in topical(150, names)]
    write(place / "tree.csv", csv("text,label", tree))
    write(place / "tree-colons.csv", csv("text,label", [(text, label.replace("/", " :: ")) for text, label in tree]))
    write(place / "tree-new.csv", csv("text,label", [(text, f"{parents[name]}/{name}s") for text, name in topical(60, names)]))
    write(place / "parents.csv", csv("child,parent", [*parents.items(), ("daily", ""), ("leisure", "")]))
    write(place / "parents-new.csv", (place / "parents.csv").read_text())

    who, does = ["man", "woman", "child", "dog"], ["sleeps", "eats", "runs", "sings"]

    def pairs(n):
        for i in range(n):
            subject, verb, follows = pick(who), pick(does), i % 3 != 0
            other = verb if follows else pick([one for one in does if one != verb])
            yield f"A {subject} {verb} on day {i}.", f"A {subject} {other}.", ["no", "yes"][follows]

    write(place / "pairs.csv", csv("premise,hypothesis,label", pairs(150)))
    write(place / "pairs-more.csv", csv("premise,hypothesis,label", pairs(40)))
    alike = [(first, second, 5 if label == "yes" else i % 4) for i, (first, second, label) in enumerate(pairs(120))]
    write(place / "pairs-score.csv", csv("premise,hypothesis,score", alike))

    def meals(n):
        for i in range(n):
            cheap, kind = pick([True, True, False]), pick([True, False])
            price = draw.randrange(300, 800) if cheap else draw.randrange(2000, 6000)
            word = pick(["good", "tasty", "fresh"] if kind else ["poor", "bland", "stale"])
            day = f"2024-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
            yield f"The meal number {i} was {word}.", price, pick(["Ginza", "Ueno", "Kanda"]), day, ["dear", "fair"][cheap or kind], 1 + kind + 2 * cheap

    write(place / "meals.csv", csv("text,price,shop,date,label,stars", meals(150)))
    write(place / "meals-new.csv", csv("text,price,shop,date,label", (row[:5] for row in meals(50))))


def formats(place: Path, rows) -> None:
    """The same rows in every supported format, and rows that are hard to read."""
    table = [["text", "label"], *map(list, rows)]
    objects = [{"id": i, "text": text, "label": label, "more": [1.5, {"a": 0.1}]} for i, (text, label) in enumerate(rows)]
    write(place / "form.csv", csv("text,label", rows))
    write(place / "form.tsv", "".join("\t".join(row) + "\n" for row in table))
    write(place / "form.jsonl", json_lines(objects))
    write(place / "form.json", json.dumps(objects, ensure_ascii=False))
    write(place / "form.ft", "".join(f"__label__{label} {text}\n" for text, label in rows))
    write(place / "form.txt", "".join(text + "\n" for text, _ in rows))
    (place / "form.csv.gz").write_bytes(gzip.compress((place / "form.csv").read_bytes(), mtime=0))
    (place / "form.xlsx").write_bytes(workbook({"Notes": [["see the other sheet"]], "Reviews": table}))
    (place / "form.parquet").write_bytes(parquet({"text": [text for text, _ in rows], "label": [label for _, label in rows]}))
    # As Excel in Japan writes it, with an unusable row.
    odd = csv("番号;本文;評価", [(i, text, label) for i, (text, label) in enumerate(rows)], ";") + "60;;positive\n"
    (place / "odd.csv").write_bytes(odd.encode("cp932", errors="replace"))
    quoted = [(text + ("\nand more" if i == 9 else ""), label) for i, (text, label) in enumerate(rows[:40])]
    quoted[7] = ("", "positive")
    write(place / "hard.csv", csv("text,label", quoted))
    write(place / "hard.jsonl", json_lines(objects[:5]) + "{ broken\n" + json_lines([{"id": 5, "text": None}]))
    write(place / "broken.csv", csv("text,label", [*rows[:40], ("A cafÃ© with good bread", "positive"), rows[3], (rows[4][0], "odd")]))


def other_tasks(place: Path) -> None:
    """Several labels, numbers, words, translations."""
    draw = random.Random(2)
    pick = draw.choice
    topics = {"food": ["soup", "bread"], "noise": ["music", "traffic"], "price": ["bill", "fee"], "staff": ["waiter", "cook"]}

    def sets(n, names):
        for i in range(n):
            labels = sorted(draw.sample(names, i % 3))
            said = " and the ".join(pick(topics[label]) for label in labels) or "mood"
            yield f"Visit {i}: the {said} of that {pick(['long', 'short', 'warm'])} day.", labels

    rows = list(sets(150, list(topics)))
    write(place / "labels.jsonl", json_lines({"text": text, "labels": labels} for text, labels in rows))
    write(place / "labels.tsv", csv("text\tlabels", [(text, "|".join(labels)) for text, labels in rows], "\t"))
    columns = [(text, *(int(name in labels) for name in topics)) for text, labels in rows]
    write(place / "labels.csv", csv("text," + ",".join(topics), columns))
    tree = {"food": "room/food", "noise": "street/noise", "price": "room/price", "staff": "room/staff"}
    write(place / "labels-tree.jsonl", json_lines({"text": text, "labels": [tree[label] for label in labels]} for text, labels in rows))
    write(place / "labels-old.jsonl", json_lines({"text": text, "labels": labels} for text, labels in sets(120, ["food", "staff"])))
    write(place / "labels-new.jsonl", json_lines({"text": text, "labels": labels} for text, labels in sets(60, ["noise", "staff"])))

    def numbers(n, filler, measure=False):
        for i in range(n):
            praise = [word if draw.random() < 0.5 else "plain" for word in ["good", "kind", "clean", "quiet"]]
            count = sum(word != "plain" for word in praise)
            number = f"{10 * count + 3 * draw.random():.2f}" if measure else count
            yield f"{filler} {i}: food {praise[0]}, staff {praise[1]}, bath {praise[2]}, street {praise[3]}.", number

    write(place / "ratings.csv", csv("text,rating", numbers(150, "Room")))
    write(place / "ratings-new.csv", csv("text,rating", [(text, x + 1) for text, x in numbers(60, "Suite")]))
    write(place / "measures.csv", csv("text,rating", numbers(150, "Room", measure=True)))
    write(place / "measures-new.csv", csv("text,rating", numbers(60, "Suite", measure=True)))

    def sentences(n, kinds="person place"):
        for i in range(n):
            who, where = pick(["Anna", "Ben", "Clara", "Greta", "Hugo"]), pick(["London", "Oslo", "Rome", "Lima"])
            person = [(who, "B-person"), (pick(["Brown", "Moore"]), "I-person")] if i % 2 else [(who, "B-person")]
            does = (pick(["lives", "works", "waits"]), "O")
            if kinds == "place" or i % 3 == 1:
                yield [("In", "O"), (where, "B-place"), ("it", "O"), ("rains", "O"), (".", "O")]
            elif i % 3:
                yield [("Nobody", "O"), does, ("now", "O"), (".", "O")]
            else:
                yield [*person, does, ("in", "O"), (where, "B-place"), (".", "O")]

    def conll(sentences):
        return "".join("".join(f"{word}\t{tag}\n" for word, tag in words) + "\n" for words in sentences)

    def spans(words):
        text, found = "", []
        for word, tag in words:
            text += " " if text and word != "." else ""
            if tag.startswith("B-"):
                found.append([len(text), len(text) + len(word), tag[2:]])
            elif tag.startswith("I-"):
                found[-1][1] = len(text) + len(word)
            text += word
        return {"text": text, "spans": found}

    write(place / "names.conll", conll(sentences(120)))
    write(place / "names-test.conll", conll(sentences(20)))
    write(place / "names.jsonl", json_lines(map(spans, sentences(120))))
    write(place / "names-old.jsonl", json_lines(map(spans, sentences(90, "place"))))
    write(place / "names-new.jsonl", json_lines(map(spans, sentences(60))))
    write(place / "names.txt", "".join(spans(words)["text"] + "\n" for words in sentences(12)))
    tags = {"In": "ADP", "in": "ADP", "it": "PRON", "Nobody": "PRON", "now": "ADV", ".": "PUNCT"}
    parts = [[(word, tags.get(word, "PROPN" if tag != "O" else "VERB")) for word, tag in words] for words in sentences(90)]
    write(place / "speech.conll", conll(parts))
    towns = ["東京", "大阪", "京都"]
    japanese = [(pick(["田中", "鈴木"]), pick(towns)) for _ in range(80)]
    write(place / "towns.jsonl", json_lines({"text": f"{who}は{town}に住む。", "spans": [[len(who) + 1, len(who) + 3, "place"]]} for who, town in japanese))

    digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    numerals = [f"{i * 37 % 1000:03}" for i in range(11, 131)]
    spelled = [(" ".join(digits[int(digit)] for digit in number), number) for number in numerals]
    write(place / "words.en", "".join(words + "\n" for words, _ in spelled))
    write(place / "words.num", "".join(number + "\n" for _, number in spelled))
    write(place / "words.tsv", csv("source\ttarget", spelled, "\t"))
    for form, text in {"csv": csv("source,target", spelled[:20]), "jsonl": json_lines({"source": a, "target": b} for a, b in spelled[:20])}.items():
        write(place / f"words.{form}", text)
    write(place / "words.json", json.dumps([{"source": a, "target": b} for a, b in spelled[:20]]))
    write(place / "words.txt", "".join(words + "\n" for words, _ in spelled[:9]) + "\n")
    (place / "words.xlsx").write_bytes(workbook({"Notes": [["no pairs"]], "Pairs": [["source", "target"], *map(list, spelled[:20])]}))
    (place / "words.parquet").write_bytes(parquet({"source": [a for a, _ in spelled[:20]], "target": [b for _, b in spelled[:20]]}))


def texts(place: Path, rows) -> None:
    """Texts without labels: a book, documents, a search corpus."""
    people, deeds = ["the cat", "a dog", "my friend", "the old man"], ["saw", "likes", "never met", "heard"]
    lines = [f"{people[i * 7 % 4]} {deeds[i * 5 // 4 % 4]} {people[(i * 3 + i // 9) % 4]}.\n" for i in range(300)]
    write(place / "book.txt", "".join(lines))
    write(place / "page.txt", "".join(lines[:12]))
    write(place / "documents.jsonl", json_lines({"text": "".join(lines[i : i + 20])} for i in range(0, 300, 20)))
    verdicts = ["was really good", "was good and cheap", "was bad and slow", "was an awful mess"]
    verdict = lambda i: f"{['the film', 'the food', 'this room', 'その料理'][i % 4]} {verdicts[i // 4 % 4]} on day {i % 7}"
    write(place / "unlabelled.jsonl", json_lines({"text": verdict(i)} for i in range(48)))
    write(place / "unlabelled-few.jsonl", json_lines({"text": verdict(i)} for i in range(16)))
    for name, count in {"verdicts": 48, "verdicts-few": 24}.items():
        write(place / f"{name}.csv", csv("text,label", [(verdict(i), ["pos", "neg"][i // 8 % 2]) for i in range(count)]))
    write(place / "corpus.csv", csv("id,text", enumerate(["the film was good", "the foods was bad", "映画", "", "good", "good " * 30])))
    write(place / "texts.txt", "The room was not clean.\n\nGood food </svg>\n")
    write(place / "tokens.txt", "\n".join(" ".join(f"t{3 + (i * i // 5 + i) % 11 * 4 % 47}" for i in range(line, line + 12)) for line in range(0, 1800, 12)))
    write(place / "lengths.txt", "3\n5\n9\n")
    write(place / "wrong.json", json.dumps({"title": "t", "inputs": {"Q": [[1, 0]], "K": [[1, 0], [0, 1]], "V": [[1], [2]]}, "claims": {"scores": [[1, 3]]}}))


def tensors(place: Path) -> None:
    """Q, K and V with three axes, as safetensors and npz; with a mask and attributes; with past keys."""
    draw = random.Random(3)

    def numbers(*shape):
        count = 1
        for n in shape:
            count *= n
        return shape, struct.pack(f"<{count}f", *(draw.uniform(-1, 1) for _ in range(count)))

    three = {"Q": numbers(2, 3, 6), "K": numbers(2, 4, 6), "V": numbers(2, 4, 6)}
    (place / "attend.safetensors").write_bytes(safetensors(three))
    (place / "attend.npz").write_bytes(npz(three))
    attributes = json.dumps({"is_causal": 1, "q_num_heads": 2, "kv_num_heads": 2, "softcap": 0.5})
    (place / "attend-in.safetensors").write_bytes(safetensors({f"in.{name}": x for name, x in three.items()}, {"attributes": attributes}))
    cached = {"Q": numbers(1, 4, 3, 5), "K": numbers(1, 2, 3, 5), "V": numbers(1, 2, 3, 5), "attn_mask": numbers(3, 5)}
    cached |= {"past_key": numbers(1, 2, 2, 5), "past_value": numbers(1, 2, 2, 5)}
    (place / "attend-past.npz").write_bytes(npz(cached))


def published(place: Path) -> None:
    """Hugging Face folders: the tiny random weights of `golden/`, with their own vocabularies."""
    special = {
        "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "bert_classifier": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "bert_pair": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "distilbert_classifier": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "roberta_classifier": ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],
        "xlm_roberta": ["[CLS]", "[UNK]", "[SEP]", "[PAD]", "[MASK]"],
        "modernbert_classifier": ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"],
    }
    decoders = ["llama", "llama_scaled", "mistral", "qwen2", "qwen3", "gpt2"]
    for name in [*special, *decoders, "marian"]:
        (place / name).mkdir()
        for file in ["config.json", "model.safetensors"]:
            shutil.copy(ROOT / "golden/pretrained" / name / file, place / name / file)
    for name, tokens in special.items():
        more = ["room", "great", "awful", "anna", "ben", "oslo", "rome", "lives", "works", "in", ".", "soup", "train", "and", "meal", "number"]
        write(place / name / "vocab.txt", "\n".join(tokens + WORDS + more))
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    write(place / "xlm_roberta/modules.json", json.dumps([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (kind, path) in enumerate(modules)]))
    (place / "xlm_roberta/1_Pooling").mkdir()
    write(place / "xlm_roberta/1_Pooling/config.json", json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}))
    write(place / "xlm_roberta/config_sentence_transformers.json", json.dumps({"prompts": {"query": "the ", "document": "was "}}))

    words = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None}
    words["model"] = {"type": "WordLevel", "vocab": {f"t{i}": i for i in range(50)}, "unk_token": "t0"}
    for name in decoders:
        write(place / name / "tokenizer.json", json.dumps(words))
        write(place / name / "tokenizer_config.json", json.dumps({"model_max_length": 64}))
        write(place / name / "generation_config.json", json.dumps({"eos_token_id": 7}))
    write(place / "qwen3/chat_template.jinja", "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}t9")

    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    def piece(text, kind):
        return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", -1) + bytes([24, kind]))

    pieces = piece("<unk>", 2) + b"".join(piece(f"▁t{i}", 1) for i in range(2, 48))
    vocabulary = {"</s>": 0, "<unk>": 1, **{f"▁t{i}": i for i in range(2, 48)}, ">>fra<<": 48, "<pad>": 49}
    write(place / "marian/vocab.json", json.dumps(vocabulary))
    sentiments = [("the film was good", "positive"), ("bad food", "negative"), ("the room was the room", "neutral")]
    write(place / "published.csv", csv("text,label", [(f"{text} {i}", label) for i in range(8) for text, label in sentiments]))
    for name in ["source.spm", "target.spm"]:
        (place / "marian" / name).write_bytes(pieces)
    write(place / "marian/generation_config.json", json.dumps({"max_length": 16, "bad_words_ids": [[49]]}))
    write(place / "marian-pairs.tsv", "source\ttarget\nt5 t9\tt7\nt2 t3 t4\tt8 t8\nt30\tt31\n")

    (place / "static").mkdir()
    draw = random.Random(4)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    table = struct.pack(f"<{6 * len(tokens)}f", *(draw.uniform(-1, 1) for _ in range(6 * len(tokens))))
    (place / "static/model.safetensors").write_bytes(safetensors({"embedding.weight": ((len(tokens), 6), table)}))
    write(place / "static/modules.json", json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]))
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, token in enumerate(tokens[:4])]
    pieces = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    frame = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    cut = {"version": "1.0", "added_tokens": added, "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": frame, "decoder": None}
    write(place / "static/tokenizer.json", json.dumps(cut | {"model": pieces | {"vocab": {token: i for i, token in enumerate(tokens)}}}))


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="")


def safetensors(tensors, metadata=None) -> bytes:
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (shape, content) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


def npz(tensors) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, (shape, content) in tensors.items():
            head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content)
    return file.getvalue()


def workbook(sheets) -> bytes:
    """An Excel workbook of texts."""
    main, of = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    escape = lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
        types = "".join(f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kind}.worksheet+xml"/>' for i in range(1, len(sheets) + 1))
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>{types}</Types>')
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="{of}/officeDocument" Target="xl/workbook.xml"/></Relationships>')
        names = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in enumerate(sheets, 1))
        archive.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{of}"><sheets>{names}</sheets></workbook>')
        parts = "".join(f'<Relationship Id="rId{i}" Type="{of}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in range(1, len(sheets) + 1))
        archive.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}/relationships">{parts}</Relationships>')
        for i, rows in enumerate(sheets.values(), 1):
            cell = lambda row, column, text: f'<c r="{"ABC"[column]}{row}" t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'
            lines = "".join(f'<row r="{row}">{"".join(cell(row, column, text) for column, text in enumerate(texts))}</row>' for row, texts in enumerate(rows, 1))
            archive.writestr(f"xl/worksheets/sheet{i}.xml", f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>')
    return file.getvalue()


def parquet(columns: dict[str, list[str]]) -> bytes:
    """A Parquet file with text columns: plain, uncompressed, one page (https://parquet.apache.org/docs/file-format)."""

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    # Thrift's compact protocol: an int becomes an i32, `(int,)` an i64, a str a binary, a list a list, a dict a struct.
    kinds = {int: 5, tuple: 6, str: 8, list: 9, dict: 12}

    def encoded(x):
        if isinstance(x, int):
            return varint(2 * x)
        if isinstance(x, tuple):
            return varint(2 * x[0])
        if isinstance(x, str):
            return varint(len(x.encode())) + x.encode()
        if isinstance(x, list):
            return bytes([len(x) << 4 | kinds[type(x[0])]]) + b"".join(map(encoded, x))
        out, last = b"", 0
        for number, value in x.items():
            out += bytes([number - last << 4 | kinds[type(value)]]) + encoded(value)
            last = number
        return out + b"\0"

    rows, out, chunks = len(next(iter(columns.values()))), b"PAR1", []
    for name, texts in columns.items():
        page = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
        head = encoded({1: 0, 2: len(page), 3: len(page), 5: {1: rows, 2: 0, 3: 3, 4: 3}})
        size = (len(head) + len(page),)
        chunks.append({2: (len(out),), 3: {1: 6, 2: [0], 3: [name], 4: 0, 5: (rows,), 6: size, 7: size, 9: (len(out),)}})
        out += head + page
    schema = [{4: "rows", 5: len(columns)}, *({1: 6, 3: 0, 4: name, 6: 0} for name in columns)]
    footer = encoded({1: 1, 2: schema, 3: (rows,), 4: [{1: chunks, 2: (len(out),), 3: (rows,)}]})
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"
