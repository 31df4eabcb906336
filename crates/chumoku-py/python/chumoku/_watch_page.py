"""The page of a watched PyTorch model: one text of its last call, with all weights and the effect of each token."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import torch
import torch.nn.functional as F

from ._pages import Alignment, Explanation, read
from ._watch import Watch, Watched, watching

# Batch size for rows that each leave out one token.
_ROWS = 32

# Names of query × key masks in PyTorch's modules.
_SQUARE_MASKS = frozenset(("mask", "attn_mask", "src_mask", "tgt_mask"))


class Explainer:
    """Builds the explanation of one text of a watched call."""

    def __init__(self, watch: Watch, item: int) -> None:
        if watch.model is None:
            raise ValueError("explain: expected a watch with a model: use watch(model)")
        if watch._call is None:
            raise ValueError("explain: the model was not called: call it inside `with chumoku.torch.watch(model) as seen:`")
        self.watch, self.model = watch, watch.model
        self.exclusive = True
        self.entries: list[Watched] = watch[watch._first :]
        arguments, self.output = watch._call
        tensors = [name for name, x in arguments.items() if isinstance(x, torch.Tensor) and x.dim() > 1]
        named = [name for name in ("input_ids", "inputs_embeds") if name in arguments]
        if not named + tensors or not self.entries:
            raise ValueError("explain: the last call had no tensor of tokens, or no attention was recorded")
        self.main: str = [*named, *tensors][0]
        batch, length = arguments[self.main].shape[:2]
        if not -batch <= item < batch:
            raise ValueError(f"item: expected a text of the batch, from 0 to {batch - 1}, got {item}")
        self.item = item % batch

        def take(name: str, x: Any) -> Any:
            """Selects the part of an argument that belongs to this text."""
            is_shared = name in _SQUARE_MASKS and isinstance(x, torch.Tensor) and x.shape == (length, length)
            is_of_batch = isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == batch and not is_shared
            return x[self.item : self.item + 1] if is_of_batch else x

        self.arguments = {name: take(name, x) for name, x in arguments.items() if name not in ("past_key_values", "cache_position")}
        for name in ("use_cache", "logits_to_keep"):
            self.arguments.pop(name, None)
        # The loss is not needed; the decoder's input comes from the labels.
        self.labels = self.arguments.pop("labels", None)
        self.is_pair = bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", False))
        if self.is_pair and self.labels is not None and "decoder_input_ids" not in self.arguments:
            self.arguments["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(self.labels)
        elif self.is_pair:
            self.labels = None
        is_choice = arguments[self.main].dim() == 3 and not arguments[self.main].is_floating_point()
        for entry in self.entries:
            if is_choice and entry.shape[0] == batch * length:
                raise ValueError(
                    f"explain: the model chooses among {length} texts, which has no page; the records of its calls are available"
                )
            if entry.shape[0] not in (1, batch):
                raise ValueError(
                    f"explain: the model was given a batch of {batch}, and its attention one of {entry.shape[0]}: give it (batch, "
                    "tokens, …), as with batch_first=True"
                )
        kept = torch.ones(length, dtype=torch.bool)
        for name in ("attention_mask", "src_key_padding_mask", "key_padding_mask"):
            padding = self.arguments.get(name)
            if isinstance(padding, torch.Tensor) and padding.shape == (1, length):
                # PyTorch's masks hold True or −∞ for padding.
                is_hidden = padding[0] if padding.dtype == torch.bool else padding[0] < 0
                kept = padding[0].bool() if name == "attention_mask" else ~is_hidden
        self.kept = kept.nonzero()[:, 0]
        if not len(self.kept):
            raise ValueError(f"explain: expected a token in text {item} of the batch, got only padding")

    def explain(self, tokens: Sequence[str] | None, part: str | None) -> Explanation | Alignment:
        if part not in (None, "cross", "encoder", "decoder"):
            raise ValueError(f"part: expected one of cross, encoder, decoder, got {part!r}")
        if not self.is_pair and part is not None:
            raise ValueError("part: only an encoder–decoder has parts")
        if self.is_pair and part is None:
            # A model that chooses a class or marks an answer reads the text in both directions.
            output = self.output if isinstance(self.output, dict) else {}
            reads_twice = getattr(output.get("logits"), "ndim", 0) == 2 or "start_logits" in output
            part = "encoder" if reads_twice else "cross"
        if part == "cross":
            return self._alignment(tokens)
        entries = [entry for entry in self.entries if not _is_cross(entry, self.entries)]
        if not self.is_pair:
            entries = self._main_calls(entries)
        if part is not None:
            # Checks the outermost module name: a decoder may contain encoder layers.
            side = lambda entry: next((name for name in entry.module.split(".") if name in ("encoder", "decoder")), None)
            entries = [entry for entry in entries if side(entry) == part]
        if part == "decoder":
            self._read_decoder()
        return self._explanation(self._weights(entries, self.kept, self.kept), self._names(tokens), part)

    def _main_calls(self, entries: list[Watched]) -> list[Watched]:
        """Selects the calls of the explained text, if the model reads others too, such as two sides or images."""
        length = self.arguments[self.main].shape[1]
        fitting = [entry for entry in entries if entry.shape[2] == entry.shape[3] == length]
        of_encoder = [entry for entry in fitting if "encoder" in entry.module.split(".")]
        has_decoder = any("decoder" in entry.module.split(".") for entry in fitting)
        return of_encoder if of_encoder and has_decoder else fitting or entries

    def _read_decoder(self) -> None:
        """Treats the decoder's input as the explained text."""
        self._decoder_ids()
        self.main = "decoder_input_ids"
        length = self.arguments[self.main].shape[1]
        mask = self.arguments.get("decoder_attention_mask")
        if isinstance(mask, torch.Tensor) and mask.shape == (1, length):
            self.kept = mask[0].bool().nonzero()[:, 0]
        elif self.labels is not None:
            self.kept = torch.arange(int((self.labels[0] >= 0).sum()))
        else:
            self.kept = torch.arange(length)

    def _weights(self, entries: list[Watched], rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """(layers, heads, rows, columns)"""
        if not entries:
            raise ValueError("explain: the last call had no attention of this part")
        heads = {entry.shape[1] for entry in entries}
        if len(heads) > 1:
            raise ValueError(f"explain: layers have different numbers of heads ({', '.join(map(str, sorted(heads)))})")
        least = (int(rows.max()) + 1, int(columns.max()) + 1)
        for entry in entries:
            is_cached = entry.shape[2] != entry.shape[3] and not _is_cross(entry, entries)
            if is_cached or entry.shape[2] < least[0] or entry.shape[3] < least[1]:
                raise ValueError(
                    f"explain: the last call read {entry.shape[2]} tokens with a cache of {entry.shape[3] - entry.shape[2]}: "
                    "call the model once on the whole text"
                )
        found = []
        for entry in entries:
            weights = entry.weights()[self.item if entry.shape[0] > 1 else 0]
            is_half = weights.dtype in (torch.bfloat16, torch.float16)
            weights = weights.float()[:, rows][:, :, columns]
            sums = weights.sum(-1, keepdim=True)
            # After rounding to half precision they do not sum to exactly 1.
            found.append(weights / sums if is_half and float((sums - 1).abs().max()) < 5e-3 else weights)
        return torch.stack(found)

    def _names(self, tokens: Sequence[str] | None) -> list[str]:
        """Returns the names of tokens: from the caller, the tokenizer, or the token ids."""
        kept = self.kept
        if tokens is not None:
            tokens = [str(token) for token in tokens]
            if len(tokens) == len(kept):
                return tokens
            length = int(self.arguments[self.main].shape[1])
            if len(tokens) != length:
                raise ValueError(f"tokens: expected {len(kept)} names (or {length}, with padding), got {len(tokens)}")
            return [tokens[int(i)] for i in kept]
        ids = self.arguments.get(self.main)
        ids = ids[0, kept].tolist() if isinstance(ids, torch.Tensor) and not ids.is_floating_point() else None
        return self._token_names(ids, len(kept))

    def _token_names(self, ids: list[int] | None, count: int) -> list[str]:
        tokenizer = self.watch.tokenizer
        if ids is None or tokenizer is None:
            return [str(i) for i in (range(count) if ids is None else ids)]
        # Decodes each token separately, so that byte tokens and space markers become readable.
        texts = [tokenizer.decode([i]).strip() for i in ids]
        return [text or str(tokenizer.convert_ids_to_tokens([i])[0]) for text, i in zip(texts, ids)]

    def _special(self) -> frozenset[int]:
        # An unknown word is still shown as it occurs in the text.
        unknown = getattr(self.watch.tokenizer, "unk_token_id", None)
        return frozenset(getattr(self.watch.tokenizer, "all_special_ids", ())) - {unknown}

    def _run(self, rows: list[dict[str, Any]]) -> list[Any]:
        """Runs the model on several texts without recording."""
        paused = {id(watch): (watch, watch._is_paused) for watch in (self.watch, *watching)}
        was_training = [module for module in self.model.modules() if module.training]
        for watch, _ in paused.values():
            watch._is_paused = True
        self.model.eval()
        try:
            with torch.no_grad():
                found = []
                for part in _compatible_batches(rows):
                    joined = {
                        name: torch.cat([row[name] for row in part]) if _is_of_text(x) else x for name, x in part[0].items()
                    }
                    output = self.model(**joined)
                    found += [_row_output(output, i, self._says_tokens()) for i in range(len(part))]
                return found
        finally:
            for watch, before in paused.values():
                watch._is_paused = before
            for module in was_training:
                module.training = True

    def _arguments_without(self, position: int) -> dict[str, Any]:
        """The arguments of the call without one token of the explained text."""
        length = self.arguments[self.main].shape[1]
        left = torch.tensor([i for i in range(length) if i != position])
        of_decoder = self.main.startswith("decoder")

        def cut(name: str, x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.dim() < 2 or self.is_pair and name.startswith("decoder") != of_decoder:
                return x
            if x.shape[-2:] == (length, length) and (x.dim() == 4 or name in _SQUARE_MASKS):
                return x[..., left, :][..., left]
            if x.shape[1] != length:
                return x
            # Positions close the gap, as in a text without the token.
            return x[:, : length - 1] if name.endswith("position_ids") else x[:, left]

        return {name: cut(name, x) for name, x in self.arguments.items()}

    def _explanation(self, weights: torch.Tensor, names: list[str], part: str | None) -> Explanation:
        layers, heads, n = weights.shape[:3]
        causal = n > 1 and not bool(weights.triu(1).any())
        ids = self.arguments.get(self.main)
        special = [False] * n
        if self.main.endswith("input_ids") and ids is not None:
            known = self._special()
            special = [int(ids[0, int(i)]) in known for i in self.kept]
        kind, label, probabilities, effects, similarity = self._answer(names, special, part)
        words: list[dict[str, Any]] = [{"text": name, "special": is_special} for name, is_special in zip(names, special)]
        missing = 1.0 - weights.sum(-1)
        if float(missing.max()) > 1e-3:
            # A sink takes the rest: an extra key that belongs to no query.
            padded = torch.zeros(layers, heads, n + 1, n + 1)
            padded[..., 1:, 1:], padded[..., 1:, 0], padded[..., 0, 0] = weights, missing, 1.0
            weights, n = padded, n + 1
            words.insert(0, {"text": "(sink)", "special": True})
            effects.insert(0, 0.0)
        rollout, held = [], torch.eye(n)
        for layer in weights.mean(1):
            held = (0.5 * layer + 0.5 * torch.eye(n)) @ held
            rollout.append(held.tolist())
        data = {
            "kind": kind,
            "model": _name(self.model),
            "text": " ".join(word["text"] for word in words if not word["special"]),
            "label": label,
            "similarity": similarity,
            "probabilities": [{"label": a, "probability": p} for a, p in probabilities],
            "exclusive": self.exclusive,
            "parts": None,
            "pieces": [{"text": word["text"], "word": i} for i, word in enumerate(words)],
            "words": words,
            "layers": layers,
            "heads": heads,
            "attention": weights.tolist(),
            "causal": causal,
            "joining": "each token is shown by itself",
            "derived": {"value_weighted": [], "rollout": rollout},
            "attribution": {
                "method": "leave-one-out",
                "class": label,
                "unit": "change in cosine" if similarity is not None else "change in log-odds when the token is removed",
                "scores": effects,
            },
        }
        if similarity is None:
            del data["similarity"]
        else:
            data["text"] = label
        found = read(data)
        assert isinstance(found, Explanation)
        return found

    def _answer(
        self, names: list[str], special: list[bool], part: str | None
    ) -> tuple[str, str, list[tuple[str, float]], list[float], float | None]:
        """Returns kind, label, probabilities, the effect of each token, and the similarity if there is one."""
        n = len(names)
        # A text with a single token has nothing left without it.
        places = [(j, int(i)) for j, i in enumerate(self.kept) if not special[j]] if n > 1 else []
        [whole], without = self._run([self.arguments]), self._run([self._arguments_without(i) for _, i in places])
        effects = [0.0] * n
        logits = whole.get("logits")
        config = getattr(self.model, "config", None)
        if "start_logits" in whole and "end_logits" in whole:
            return ("classifier", *self._answer_span(names, whole, without, places, effects), None)
        if logits is not None and logits.dim() == 1:
            labels = getattr(config, "id2label", None) or {}
            name = lambda i: str(labels.get(i, i))
            # A single logit is a score that equals the log-odds; with multiple labels, the probabilities are
            # independent.
            self.exclusive = len(logits) > 1 and getattr(config, "problem_type", None) != "multi_label_classification"
            shares = (lambda z: torch.softmax(z, -1)) if self.exclusive else torch.sigmoid
            found = [x["logits"] for x in without]
            return ("classifier", *_chosen(logits, found, places, effects, name, None, shares), None)
        if logits is not None and logits.dim() == 2 and (self._is_causal() or part == "decoder"):
            # The last token before padding. It moves one position forward if it or an earlier token is removed.
            at = int(self.kept[-1])
            # In the tokenizer's form: a preceding space makes another token.
            tokenizer = self.watch.tokenizer
            name = lambda i: str(i) if tokenizer is None else str(tokenizer.convert_ids_to_tokens([i])[0])
            found = [x["logits"][at - 1] for x in without]
            return ("language_model", *_chosen(logits[at], found, places, effects, name, 10), None)
        vector = lambda x, without: _vector(x, self._mask(without), part)
        own = vector(whole, None)
        for (j, i), other in zip(places, without):
            effects[j] = 1.0 - float(F.cosine_similarity(own, vector(other, i), dim=0))
        words = [name for name, is_special in zip(names, special) if not is_special]
        return "encoder", " ".join(words) or "the text", [], effects, 1.0

    def _answer_span(
        self, names: list[str], whole: dict[str, Any], without: list[Any], places: list[tuple[int, int]], effects: list[float]
    ) -> tuple[str, list[tuple[str, float]], list[float]]:
        """For a model that marks an answer in the text: the answer, the most probable alternatives, and the effect of
        each token."""
        kept = [int(i) for i in self.kept]
        called = dict(zip(kept, names))

        def spans(found: dict[str, Any], kept: list[int]) -> torch.Tensor:
            # Each answer has its start, and its end at or after it: (first, last).
            start, end = (torch.log_softmax(found[name][kept].double(), -1) for name in ("start_logits", "end_logits"))
            return (start[:, None] + end).exp().triu()

        def log_odds(p: float) -> float:
            return float(torch.logit(torch.tensor(p, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)))

        shares = spans(whole, kept)
        order = shares.flatten().argsort(descending=True, stable=True)[:10].tolist()
        likeliest = [(kept[at // len(kept)], kept[at % len(kept)], float(shares.flatten()[at])) for at in order]
        first, last, best = likeliest[0]
        for (j, i), other in zip(places, without):
            answer = [k for k in kept if first <= k <= last and k != i]
            if not answer:
                # The answer has no probability if a part of it is left out.
                continue
            left = [k for k in kept if k != i]
            p = spans(other, [k - (k > i) for k in left])[left.index(answer[0]), left.index(answer[-1])]
            effects[j] = log_odds(best) - log_odds(float(p))
        # Several answers may have the same text.
        named: dict[str, float] = {}
        for a, b, p in likeliest:
            name = " ".join(called[k] for k in kept if a <= k <= b)
            named[name] = named.get(name, 0.0) + p
        label = " ".join(called[k] for k in kept if first <= k <= last)
        return label, list(named.items()), effects

    def _says_tokens(self) -> bool:
        """Returns true if the model has a language-model head."""
        head = getattr(self.model, "get_output_embeddings", None)
        return head is not None and head() is not None

    def _is_causal(self) -> bool:
        config = getattr(self.model, "config", None)
        return bool(getattr(config, "is_decoder", False)) or type(self.model).__name__.endswith(("ForCausalLM", "LMHeadModel"))

    def _mask(self, without: int | None) -> torch.Tensor:
        """A mask of the tokens that are not padding."""
        mask = torch.zeros(self.arguments[self.main].shape[1], dtype=torch.bool)
        mask[self.kept] = True
        return mask if without is None else torch.cat([mask[:without], mask[without + 1 :]])

    # Encoder–decoders.

    def _decoder_ids(self) -> list[int]:
        """The tokens that the decoder read."""
        ids = self.arguments.get("decoder_input_ids")
        if ids is None or "input_ids" not in self.arguments:
            raise ValueError(
                "explain: the last call had no source (input_ids) with its translation (decoder_input_ids, or labels): give the "
                "model both at once"
            )
        return ids[0].tolist()

    def _alignment(self, tokens: Sequence[str] | None) -> Alignment:
        read_ids = self._decoder_ids()
        labels = None if self.labels is None else self.labels[0].tolist()
        if labels is not None:
            # Ignored labels are not part of the translation.
            labels = [label for label in labels if label >= 0]
            read_ids = read_ids[: len(labels)]
        entries = [entry for entry in self.entries if _is_cross(entry, self.entries)]
        rows = torch.arange(len(read_ids))
        weights = self._weights(entries, rows, self.kept)
        source = self._names(tokens)
        # Each row of the decoder predicts the next token; the last row gives its most probable one.
        special, known = self._special(), self.arguments["input_ids"][0, self.kept].tolist()
        is_special = [i in special for i in known]
        places = [(j, int(i)) for j, i in enumerate(self.kept) if not is_special[j]]
        self.arguments["decoder_input_ids"] = torch.tensor([read_ids])
        self.arguments.pop("decoder_attention_mask", None)
        [whole], without = self._run([self.arguments]), self._run([self._arguments_without(i) for _, i in places])
        log_p = torch.log_softmax(whole["logits"].float(), -1)
        target_ids = labels if labels is not None else [*read_ids[1:], int(log_p[-1].argmax())]
        target = self._token_names(target_ids, len(target_ids))
        at = torch.tensor(target_ids)[:, None]
        own = log_p.gather(1, at)[:, 0]
        effects: list[list[float | None]] = [[None] * len(source) for _ in target_ids]
        for (j, _), other in zip(places, without):
            change = own - torch.log_softmax(other["logits"].float(), -1).gather(1, at)[:, 0]
            for row, x in zip(effects, change.tolist()):
                row[j] = x
        words = lambda names, flags: [{"text": name, "special": flag} for name, flag in zip(names, flags)]
        found = read(
            {
                "model": _name(self.model),
                "source": " ".join(name for name, flag in zip(source, is_special) if not flag),
                "target": " ".join(name for name, i in zip(target, target_ids) if i not in special),
                "is_given": True,
                "is_cut": False,
                "source_words": words(source, is_special),
                "target_words": words(target, [i in special for i in target_ids]),
                "layers": weights.shape[0],
                "heads": weights.shape[1],
                "log_probabilities": own.tolist(),
                "effects": effects,
                "joining": "each token is shown by itself",
                "attention": weights.tolist(),
            }
        )
        assert isinstance(found, Alignment)
        return found


# Names of cross-attention modules in transformers, and in PyTorch's decoder together with `self_attn`.
_CROSS = frozenset(("crossattention", "cross_attn", "cross_attention", "encoder_attn", "EncDecAttention"))


def _is_cross(entry: Watched, among: Sequence[Watched]) -> bool:
    """Returns true if a call is cross-attention, by its module's name."""
    parent, _, own = entry.module.rpartition(".")
    if own == "multihead_attn":
        return any(other.module == f"{parent}.self_attn" for other in among)
    return not _CROSS.isdisjoint(entry.module.split("."))


def _compatible_batches(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Splits rows into batches that share the arguments which are not specific to a text."""

    def same(x: Any, y: Any) -> bool:
        if not isinstance(x, torch.Tensor) or _is_of_text(x):
            return True
        return x is y or x.shape == y.shape and torch.equal(x, y)

    part: list[dict[str, Any]] = []
    for row in rows:
        if part and (len(part) == _ROWS or not all(same(x, row[name]) for name, x in part[0].items())):
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _is_of_text(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == 1


def _row_output(output: Any, i: int, says_tokens: bool) -> dict[str, Any]:
    """Selects the model's output for one text of a batch: its tensors by name. `says_tokens` is true if they may be
    token logits."""
    if not isinstance(output, dict):
        first = output if isinstance(output, torch.Tensor) else output[0]
        output = {"logits" if first.dim() == 2 or says_tokens else "last_hidden_state": first}
    return {name: x[i] for name, x in output.items() if isinstance(x, torch.Tensor) and x.dim() > 1}


def _vector(found: dict[str, Any], mask: torch.Tensor, part: str | None) -> torch.Tensor:
    """The mean of a text's vectors, or of the outputs per token if the model returns no vectors."""
    states = found.get("encoder_last_hidden_state" if part == "encoder" else "last_hidden_state")
    if states is None:
        states = found.get("logits", next((x for x in found.values() if x.dim() == 2), None))
    if states is None:
        raise ValueError("explain: the model's output has neither logits nor vectors")
    states = states if states.dim() == 2 else states[None]
    return (states[mask] if len(mask) == len(states) else states).float().mean(0)


def _chosen(
    logits: torch.Tensor,
    without: list[Any],
    places: list[tuple[int, int]],
    effects: list[float],
    name: Callable[[int], str],
    most: int | None,
    shares: Callable[[torch.Tensor], torch.Tensor] = lambda z: torch.softmax(z, -1),
) -> tuple[str, list[tuple[str, float]], list[float]]:
    """Returns the label, the probabilities, and the change in the label's log-odds without each token."""
    p = shares(logits.double())
    best = int(p.argmax())

    def log_odds(logits: torch.Tensor) -> float:
        p = float(shares(logits.double())[best].clamp(1e-12, 1 - 1e-12))
        return float(torch.logit(torch.tensor(p, dtype=torch.float64)))

    for (j, _), other in zip(places, without):
        effects[j] = log_odds(logits) - log_odds(other)
    order = p.argsort(descending=True, stable=True)[:most].tolist()
    return name(best), [(name(i), float(p[i])) for i in order], effects


def _name(model: torch.nn.Module) -> str:
    path = getattr(getattr(model, "config", None), "_name_or_path", "")
    return path.rstrip("/").rpartition("/")[2] or type(model).__name__
