"""Computes the answers of a trained Chumoku model from its folder alone.

    python examples/recompute.py MODEL TEXT...

It prints a JSON object for each text:

- classifier, also of n-grams alone: the probabilities of the classes, as `chumoku predict --json`;
- translator: the translation and its score, as `chumoku translate --beam 1 --json`;
- language model: the mean -ln p of the text's tokens, as `chumoku eval --json` with the text as one document, and the
  continuation, as `chumoku generate --temperature 0 --max-tokens 20`.

Read it together with docs/model-folder.md, from which alone it was written. It is slow: there is no batch and no cache,
and every number is a 64-bit float. It needs numpy and tokenizers. """

import json
import math
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

CLS = 0  # the number of [CLS], in every tokenizer that Chumoku writes


# ---- the folder ------------------------------------------------------------------------------------------------------

def read_tensors(path):
    """A safetensors file: the header's length, a JSON header, then the numbers."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    types = {"F32": "<f4", "I64": "<i8"}
    tensors = {}
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    for name, about in header.items():
        start, end = about["data_offsets"]
        numbers = np.frombuffer(data[8 + length + start:8 + length + end], types[about["dtype"]])
        tensors[name] = numbers.reshape(about["shape"])
        if about["dtype"] == "F32":
            tensors[name] = tensors[name].astype(np.float64)
    return tensors


def read_tokenizer(path):
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True  # a text that spells "[CLS]" is text
    return tokenizer


# ---- the layers ------------------------------------------------------------------------------------------------------

def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Network:
    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors

    def linear(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def norm(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred ** 2).mean(axis=-1, keepdims=True) + 1e-5)
        return scaled * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def embed(self, ids, of=""):
        """Tokens to vectors; `of` is "source_" for a translator's source."""
        d, kind = self.config["d_model"], self.config["position"]
        if self.config.get("absolute_positions") and kind != "learned":
            kind = "sinusoidal"
        joint = self.config.get("joint_vocabulary", True)
        table = self.tensors["embedding.weight" if joint else of + "embedding.weight"]
        x = math.sqrt(d) * table[ids]
        places = np.arange(len(ids))[:, None]
        if kind == "sinusoidal":
            angles = places / 10000 ** (2 * (np.arange(d) // 2) / d)
            x += np.where(np.arange(d) % 2 == 0, np.sin(angles), np.cos(angles))
        elif kind == "learned":
            x += self.tensors[of + "position.weight"][:len(ids)]
        return x

    def attention(self, name, x, memory=None, causal=False):
        """Attention of the tokens x to each other or, with a memory, to it."""
        config, d, heads = self.config, self.config["d_model"], self.config["num_heads"]
        w, key_heads = d // heads, config.get("num_key_heads", heads)
        weight, bias = self.tensors[name + ".in_proj_weight"], self.tensors[name + ".in_proj_bias"]
        seen = x if memory is None else memory
        rows = np.split(np.arange(len(weight)), [d, d + key_heads * w])
        query, key, value = (y @ weight[r].T + bias[r] for y, r in zip([x, seen, seen], rows))
        query, key, value = (y.reshape(len(y), -1, w).transpose(1, 0, 2) for y in (query, key, value))
        position = config["position"] if memory is None else "none"
        if position == "rotary":
            query, key = self.rotate(query), self.rotate(key)
        # Neighboring query heads share heads of keys and values.
        key, value = (y.repeat(heads // key_heads, axis=0) for y in (key, value))
        beta = np.full(heads, config.get("beta", 1 / math.sqrt(w)))
        if config.get("train_beta"):
            beta *= self.tensors[name + ".beta"]
        scores = beta[:, None, None] * (query @ key.transpose(0, 2, 1))
        distance = np.arange(len(x))[:, None] - np.arange(len(seen))[None, :]
        if position == "alibi":
            scores -= alibi_slopes(heads)[:, None, None] * np.abs(distance)
        hidden = (distance < 0) & causal
        if memory is None and "attention_window" in config:
            hidden |= np.abs(distance) > config["attention_window"]
        scores[:, hidden] = -np.inf
        weights = softmax(scores)
        if config.get("hard_attention"):
            weights = np.eye(len(seen))[scores.argmax(axis=-1)]
        together = (weights @ value).transpose(1, 0, 2).reshape(len(x), d)
        return self.linear(name + ".out_proj", together)

    def rotate(self, x):
        half = x.shape[-1] // 2
        angles = np.arange(x.shape[1])[:, None] * self.config.get("rotary_base", 10000.0) ** (-np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)

    def feed_forward(self, name, x):
        x = self.linear(name + ".linear1", x)
        gelu = self.config["activation"] == "gelu"
        x = x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) if gelu else np.maximum(x, 0)
        return self.linear(name + ".linear2", x)

    def layers(self, name, count, x, memory=None, causal=False):
        """An encoder or, with a memory, a decoder."""
        pre = self.config["norm_order"] == "pre"

        def around(norm, part, x):
            return x + part(self.norm(norm, x)) if pre else self.norm(norm, x + part(x))

        for n in range(count):
            layer = f"{name}.layers.{n}"
            x = around(layer + ".norm1", lambda x: self.attention(layer + ".self_attn", x, causal=causal), x)
            if memory is not None:
                x = around(layer + ".norm2", lambda x: self.attention(layer + ".multihead_attn", x, memory), x)
            last = ".norm2" if memory is None else ".norm3"
            x = around(layer + last, lambda x: self.feed_forward(layer, x), x)
        return self.norm(name + ".norm", x) if pre else x

    def recurrent(self, x):
        for n in range(self.config["num_layers"]):
            ways = [("", x)] + ([("_reverse", x[::-1])] if self.config["bidirectional"] else [])
            outputs = [self.one_way(f"l{n}{suffix}", x) for suffix, x in ways]
            x = np.concatenate([outputs[0]] + [y[::-1] for y in outputs[1:]], axis=1)
        return x

    def one_way(self, name, inputs):
        w_x, w_h, b_x, b_h = (self.tensors["recurrent." + part + name]
                              for part in ("weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_"))
        h = c = np.zeros(self.config["hidden_size"])
        outputs = []
        for t in inputs:
            x, s = w_x @ t + b_x, w_h @ h + b_h
            if self.config["cell"] == "rnn":
                h = np.tanh(x + s)
            elif self.config["cell"] == "lstm":
                i, f, g, o = np.split(x + s, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            else:
                (x_r, x_z, x_n), (s_r, s_z, s_n) = np.split(x, 3), np.split(s, 3)
                r, z = sigmoid(x_r + s_r), sigmoid(x_z + s_z)
                h = (1 - z) * np.tanh(x_n + r * s_n) + z * h
            outputs.append(h)
        return np.array(outputs)


def alibi_slopes(heads):
    def of_power(n):
        return [2 ** (-8 * h / n) for h in range(1, n + 1)]

    below = 2 ** int(math.log2(heads))
    return np.array((of_power(below) + of_power(2 * below)[::2])[:heads])


# ---- the n-grams of a classifier -------------------------------------------------------------------------------------

MASK = 2 ** 64 - 1
EDGE = 0x5BD1E9959D2C5681
UNSPACED = [(0xE01, 0xE3A), (0xE40, 0xE4E), (0xE81, 0xEDF), (0x1000, 0x109F), (0xA9E0, 0xA9FE), (0xAA60, 0xAA7F),
            (0x1780, 0x17D3), (0x3005, 0x3007), (0x3031, 0x3035), (0x3041, 0x309F), (0x30A1, 0x30FF), (0x31F0, 0x31FF),
            (0xFF66, 0xFF9F), (0x1B000, 0x1B16F), (0x3105, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
            (0x20000, 0x3FFFF)]


def graphemes(text):
    """Extended grapheme clusters, as far as marks and joiners go: enough for most texts (see UAX #29)."""
    try:
        import regex
        return regex.findall(r"\X", text)
    except ImportError:
        clusters = []
        for c in text:
            mark = unicodedata.category(c) in ("Mn", "Me", "Mc") or c in "\u200d\uff9e\uff9f"
            extends = mark or 0x1F3FB <= ord(c) <= 0x1F3FF
            if clusters and (extends or clusters[-1].endswith("\u200d")):
                clusters[-1] += c
            else:
                clusters.append(c)
        return clusters


def kind_and_folded(cluster):
    first = cluster[0]
    if 0xFF01 <= ord(first) <= 0xFF5E:
        first = chr(ord(first) - 0xFEE0)
    elif first in "\u2018\u2019\u02bc":
        first = "'"
    folded = first.lower() + cluster[1:]
    if first.isascii() and first.isalnum():
        return "word", folded
    if first.isspace() or unicodedata.category(first) == "Cc":
        return "space", folded
    if first.isascii():
        return "mark", folded
    if any(low <= ord(first) <= high for low, high in UNSPACED):
        return "unspaced", folded
    return ("word" if first.isalnum() else "mark"), folded


def unit_hash(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def runs(units, family, shortest, longest):
    for start in range(len(units)):
        h = family
        for n, unit in enumerate(units[start:start + longest], 1):
            h = ((h << 5 | h >> 59) & MASK ^ unit) * 0x9E3779B97F4A7C15 & MASK
            if n >= shortest and (n > 1 or unit != EDGE):
                end = h
                for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
                    end = (end ^ end >> 33) * factor & MASK
                end ^= end >> 33
                yield end & ~1 | (family != 1)


def ngrams(text, scheme):
    """The hashes of all n-grams of a text."""
    clusters = [kind_and_folded(cluster) for cluster in graphemes(text)]
    kinds = [kind for kind, _ in clusters]
    if all(kind == "space" for kind in kinds):
        return []
    edge = [EDGE] if scheme["edges"] else []
    if kinds.count("unspaced") > 0.3 * (kinds.count("unspaced") + kinds.count("word")):
        units, before, space = edge[:], "unspaced", False
        for kind, folded in clusters:
            if kind == "space":
                space = True
                continue
            if space and before != "unspaced" and kind != "unspaced":
                units.append(unit_hash(" "))
            units.append(unit_hash(folded))
            before, space = kind, False
        return list(runs(units + edge, 2, 1, scheme["characters"]))
    # Words: clusters of letters that touch, an apostrophe between them included.
    signs = "".join({"word": "w", "unspaced": "u", "space": " "}.get(k, "'" if f == "'" else "m") for k, f in clusters)
    found, stretch = [], edge[:]
    for piece in re.finditer(r"w+(?:'w+)*|u+|['m]", signs):
        texts = [folded for _, folded in clusters[piece.start():piece.end()]]
        if signs[piece.start()] == "u":
            found += runs(stretch, 1, 1, scheme["words"])
            found += runs([unit_hash(text) for text in texts], 2, 1, scheme["characters"])
            stretch = []
            continue
        stretch.append(unit_hash("".join(texts)))
        if signs[piece.start()] == "w" and scheme["inside_words"]:
            inside = [EDGE] + [unit_hash(c) for c in "".join(texts)] + [EDGE]
            found += runs(inside, 3, *scheme["inside_words"])
    return found + list(runs(stretch + edge, 1, 1, scheme["words"]))


def ngram_logits(text, scheme, tensors):
    feature = {int(h) & MASK: i for i, h in enumerate(tensors["ngrams.hashes"])}
    counts = {}
    for h in ngrams(text, scheme):
        if h in feature:
            counts[h] = counts.get(h, 0) + 1
    if not counts:
        return tensors["ngrams.prior"]
    blocks = [[h for h in counts if h % 2 == parity] for parity in (0, 1)]
    blocks = [block for block in blocks if block]
    z = tensors["ngrams.bias"].copy()
    for block in blocks:
        x = np.array([(1 + math.log(counts[h])) * tensors["ngrams.idf"][feature[h]] for h in block])
        x /= math.sqrt((x ** 2).sum() * len(blocks))
        z += x @ tensors["ngrams.weights"][[feature[h] for h in block]]
    return np.array([-z[0] / 2, z[0] / 2]) if len(z) == 1 else z


# ---- the kinds of model ----------------------------------------------------------------------------------------

def classify(network, folder, text):
    config, tensors = network.config, network.tensors
    ids = read_tokenizer(folder / "tokenizer.json").encode(text, add_special_tokens=False).ids
    windows = np.array_split(np.array(ids, int), max(1, math.ceil(len(ids) / (config["max_length"] - 1))))
    logits = np.zeros(config["num_classes"])
    for window in windows:
        x = network.embed(np.concatenate([[CLS], window]))
        if "cell" in config:
            x = network.recurrent(x)
        else:
            x = network.layers("encoder", config["num_layers"], x, causal=config["causal"])
        pooled = {
            "mean": lambda: x.mean(axis=0), "max": lambda: x.max(axis=0), "first": lambda: x[0],
            "mean_sqrt_length": lambda: x.sum(axis=0) / math.sqrt(len(x)),
        }[config["pooling"]]()
        logits += network.linear("head", pooled) * (len(window) / len(ids) if ids else 1)
    if "problem" in config:
        return labels(text, config, logits, ngram_logits(text, config["ngrams"], tensors))
    scores = config["blend"]["attention"] * log_softmax(logits)
    if config["ngrams"]:
        scores += config["blend"]["ngrams"] * log_softmax(ngram_logits(text, config["ngrams"], tensors))
    return classes(text, config, softmax(scores))


def classify_by_ngrams(network, folder, text):
    config = network.config
    logits = ngram_logits(text, config["ngrams"], network.tensors)
    if "problem" in config:
        return labels(text, config, np.zeros_like(logits), logits)
    scores = config["scale"] * log_softmax(logits)
    return classes(text, config, softmax(scores))


def labels(text, config, logits, of_ngrams):
    """Several labels: each has its own probability and threshold."""
    how = config["problem"]
    p = 1 / (1 + np.exp(-(how["attention"] * logits + how["ngrams"] * of_ngrams + how["offsets"])))
    found = [label for label, q, least in zip(config["labels"], p, how["thresholds"]) if q >= least]
    return {"text": text, "labels": found, "probabilities": dict(zip(config["labels"], p))}


def classes(text, config, p):
    labels = config["labels"]
    best = (p * config.get("decision", {"factors": 1})["factors"]).argmax()
    return {"text": text, "label": labels[best], "probability": p[best], "probabilities": dict(zip(labels, p))}


def translate(network, folder, text):
    config = network.config
    target = read_tokenizer(folder / "tokenizer.json")
    source = target if config["joint_vocabulary"] else read_tokenizer(folder / "source_tokenizer.json")
    ids = source.encode(text, add_special_tokens=False).ids[:config["max_length"] - 1] + [CLS]
    memory = network.layers("encoder", config["num_layers"], network.embed(ids, "source_"), causal=config["causal"])
    said, log_p, ended = [], 0.0, False
    while not ended and len(said) < min(2 * len(ids) + 20, config["max_length"] - 1):
        x = network.layers("decoder", config["num_decoder_layers"], network.embed([CLS] + said), memory, causal=True)
        log_probabilities = log_softmax(x[-1] @ network.tensors["embedding.weight"].T)
        token = int(log_probabilities.argmax())
        log_p += log_probabilities[token]
        ended = token == CLS
        said += [] if ended else [token]
    score = log_p / ((5 + len(said) + ended) / 6) ** 0.6
    return {"text": text, "translation": target.decode(said), "score": score}


def continue_text(network, folder, text):
    config, tokenizer = network.config, read_tokenizer(folder / "tokenizer.json")
    context = config["max_length"]

    def logits(ids):
        x = network.layers("encoder", config["num_layers"], network.embed(ids), causal=True)
        return x @ network.tensors["embedding.weight"].T

    start = [CLS] + tokenizer.encode(text, add_special_tokens=False).ids
    document, losses = start + [CLS], []
    for at in range(0, len(start), context):
        window, following = start[at:at + context], document[at + 1:at + 1 + context]
        losses += [-log_softmax(row)[token] for row, token in zip(logits(window), following)]
    # The continuation. When the context is full, its older half is dropped.
    seen, said = start[-context:], []
    while len(said) < 20:
        scores = logits(seen)[-1]
        if tokenizer.token_to_id("[UNK]") is not None:
            scores[tokenizer.token_to_id("[UNK]")] = -np.inf  # an unknown word cannot be written
        token = int(scores.argmax())
        if token == CLS:
            break
        said.append(token)
        seen.append(token)
        if len(seen) > context:
            seen = seen[-(context // 2):]
    return {"text": text, "tokens": len(losses), "loss": np.mean(losses), "continued": tokenizer.decode(said)}


def main():
    folder, texts = Path(sys.argv[1]), sys.argv[2:]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = Network(config, read_tensors(folder / "model.safetensors"))
    say = {"chumoku_text_classifier": classify, "chumoku_ngram_classifier": classify_by_ngrams,
           "chumoku_translator": translate, "chumoku_language_model": continue_text}[config["model_type"]]
    for text in texts:
        print(json.dumps(say(network, folder, text), ensure_ascii=False))


if __name__ == "__main__":
    main()
