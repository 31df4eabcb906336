"""Where a model of PyTorch looks: what :func:`chumoku.torch.watch` collects, and its page."""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
from typing import Any, Callable, Iterator, Sequence

import torch
import torch.nn.functional as F

from ._functions import attention
from ._pages import Alignment, Explanation, read

# Rows of which one token is left out, that a model reads at a time.
_ROWS = 32

# PyTorch's own, whatever stands in its place for a while.
_SDPA = F.scaled_dot_product_attention

# Who watches, innermost last.
_watching: list[Watch] = []

# Held while a function of PyTorch is another's, and what is otherwise while somebody watches: by how many, and what it was.
_patching = threading.RLock()
_held: dict[Any, list] = {}


class Watched:
    """What one call of attention did.

    Attributes:
        module: the name of the attention module in the model, or its class.
        layer: the layer, from 0, where the module or its name says so.
        entropy: of each query's weights in nats: (batch, heads, queries).
        mass: the weight that each key receives, summed over queries: (batch, heads, keys).
        top_keys: the keys of the largest weights of each query: (batch, heads, queries, count); −1 where there are fewer.
        top_weights: their weights.
    """

    def __init__(self, module: str, layer: int | None, statistics: Any, inputs: tuple, options: dict[str, Any]) -> None:
        self.module = module
        self.layer = layer
        self.entropy: torch.Tensor = statistics.entropy
        self.mass: torch.Tensor = statistics.mass
        self.top_keys: torch.Tensor = statistics.top_keys
        self.top_weights: torch.Tensor = statistics.top_weights
        self._inputs, self._options = inputs, options

    def weights(self) -> torch.Tensor:
        """All weights, computed again from queries and keys, which are kept: (batch, heads, queries, keys)."""
        with torch.no_grad():
            return attention(*self._inputs, **self._options, return_weights=True).weights

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return (*self.entropy.shape, self.mass.shape[-1])

    def __repr__(self) -> str:
        return f"<Watched {self.module}: {' x '.join(map(str, self.shape))}, mean entropy {self.entropy.mean():.3f} nats>"


class Watch(Sequence[Watched]):
    """The calls of attention that were watched, in their order.

    :meth:`explain` and :meth:`show` are of the model's last call.
    """

    def __init__(self, model: torch.nn.Module | None, tokenizer: Any, top: int) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._top = top
        self._names = {} if model is None else {id(module): name for name, module in model.named_modules()}
        self._entries: list[Watched] = []
        # The modules that run now, the model's last call with what came of it, and where its entries begin.
        self._running: list[torch.nn.Module] = []
        self._call: tuple[dict[str, Any], Any] | None = None
        self._first = 0
        self._is_paused = False
        self._thread = threading.get_ident()

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        return self._entries[at]

    def __repr__(self) -> str:
        return f"<Watch: {len(self)} calls of attention>"

    def clear(self) -> None:
        """Forgets what was collected."""
        self._entries.clear()
        self._call, self._first = None, 0

    def explain(self, item: int = 0, *, tokens: Sequence[str] | None = None, part: str | None = None) -> Explanation | Alignment:
        """One text of the model's last call, with every weight, and what each token does to the answer.

        The answer is what the model says: a class, the next token, or, of a model without such a head, the mean of its vectors.
        For the effect of a token the model reads the text without it.

        Args:
            item: the place of the text in the batch.
            tokens: what to call the tokens; by default ``tokenizer`` says.
            part: of an encoder–decoder: ``"cross"`` (an :class:`Alignment`), ``"encoder"`` or ``"decoder"``; cross if absent.
                Where the call had no labels, the last word of an alignment is the one that the model would write next.

        Raises:
            ValueError: there was no call, or not one that reads whole texts without a cache.
        """
        return _Explainer(self, item).explain(tokens, part)

    def show(
        self,
        item: int = 0,
        *,
        tokens: Sequence[str] | None = None,
        part: str | None = None,
        lang: str = "en",
        height: int = 900,
    ) -> None:
        """Shows the page of ``chumoku explain`` in a notebook; arguments are those of :meth:`explain`."""
        self.explain(item, tokens=tokens, part=part).show(lang, height)

    # What follows is told of calls while they run.

    def _add(self, module: torch.nn.Module | None, inputs: tuple, options: dict[str, Any], statistics: Any) -> None:
        name = self._names.get(id(module), type(module).__name__)
        layer = getattr(module, "layer_idx", None)
        if layer is None:
            numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
            layer = int(numbers[-1]) if numbers else None
        self._entries.append(Watched(name, layer, statistics, inputs, options))

    def _collect(self, module: torch.nn.Module | None, inputs: tuple, options: dict[str, Any]) -> None:
        if not self._listens() or not self._has(module):
            return
        detached = tuple(x.detach() for x in inputs)
        options = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        with torch.no_grad():
            found = attention(*detached, **options, statistics=("mass", "entropy", f"top:{self._top}"))
        self._add(module, detached, options, found.statistics)

    def _listens(self) -> bool:
        """Whether a call of this thread is one to be seen."""
        return not self._is_paused and threading.get_ident() == self._thread

    def _has(self, module: torch.nn.Module | None) -> bool:
        return self.model is None or id(module) in self._names


def collect(
    module: torch.nn.Module | None, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], options: dict[str, Any]
) -> None:
    """Tells whoever watches of a call of attention."""
    for watch in _watching:
        watch._collect(module, inputs, options)


class _Calls(torch.overrides.TorchFunctionMode):
    """Sees calls of PyTorch's own function."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not self.watch._listens():
            return function(*args, **kwargs)
        if function is F.multi_head_attention_forward:
            return self._multi_head(function, args, kwargs)
        if function is _SDPA:
            self._collect(*args, **kwargs)
        return function(*args, **kwargs)

    def _multi_head(self, function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
        # It calls the other by its name in that module, and a mode that is at work does not see it.
        with _patching:
            plain = F.scaled_dot_product_attention

            def seen(*args: Any, **kwargs: Any) -> torch.Tensor:
                self._collect(*args, **kwargs)
                return plain(*args, **kwargs)

            F.scaled_dot_product_attention = seen
            try:
                if not kwargs.get("need_weights", True):
                    return function(*args, **kwargs)
                # Where it hands its weights out, it computes them itself: once more, for the other to be called.
                with torch.no_grad(), torch.random.fork_rng(devices=[]):
                    function(*args, **kwargs | {"need_weights": False})
            finally:
                F.scaled_dot_product_attention = plain
        return function(*args, **kwargs)

    def _collect(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        if any(x.dim() < 3 or x.is_nested or x.device.type != "cpu" for x in (query, key, value)):
            return
        batched = [x.flatten(0, -4) if x.dim() > 3 else x[None] for x in (query, key, value)]
        if attn_mask is not None and attn_mask.dim() > 4:
            attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2]).flatten(0, -4)
        running = self.watch._running
        options = {"causal": "top_left" if is_causal else None, "mask": attn_mask, "scale": scale}
        self.watch._collect(running[-1] if running else None, (batched[0], batched[1], batched[2]), options)


@contextlib.contextmanager
def watch(model: torch.nn.Module | None = None, tokenizer: Any = None, *, top: int = 8) -> Iterator[Watch]:
    """Collects what every call of attention does, at any length: no array of queries × keys is made.

    A model of transformers runs with ``attn_implementation="chumoku"`` inside. Of other models, calls of
    ``torch.nn.functional.scaled_dot_product_attention`` and ``torch.nn.MultiheadAttention`` are seen. Each thread sees its own
    calls. Queries and keys are kept until the watch is let go of.

    >>> with chumoku.torch.watch(model, tokenizer) as seen:                            # doctest: +SKIP
    ...     model(**tokenizer("a text", return_tensors="pt"))
    >>> seen[0].entropy.mean()                                                         # doctest: +SKIP
    >>> seen.show()                                                                    # doctest: +SKIP

    Args:
        model: whose calls; without it all calls are collected, but there is no page.
        tokenizer: what names tokens on the page.
        top: how many of each query's strongest keys are kept.
    """
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(top, int) or top < 1:
        raise ValueError(f"top: expected a whole number from 1 on, got {top!r}")
    watch = Watch(model, tokenizer, top)
    with contextlib.ExitStack() as stack:
        if model is not None:
            stack.enter_context(_as_chumoku(model))
            stack.enter_context(_listening(model, watch))
        # nn.TransformerEncoder's own kernel hands nothing on.
        set_fast = torch.backends.mha.set_fastpath_enabled
        stack.enter_context(_while("fast path", torch.backends.mha.get_fastpath_enabled, lambda: set_fast(False), set_fast))
        _watching.append(watch)
        stack.callback(_watching.remove, watch)
        stack.enter_context(_Calls(watch))
        yield watch


@contextlib.contextmanager
def _as_chumoku(model: torch.nn.Module) -> Iterator[None]:
    """A model of transformers with this attention, for a while."""
    if not hasattr(model, "set_attn_implementation"):
        yield
        return
    from . import transformers

    def states() -> list[tuple[Any, str]]:
        # Parts of a model may have a configuration of their own.
        configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
        return [(config, config._attn_implementation) for config in configs.values() if hasattr(config, "_attn_implementation")]

    def leave(before: list[tuple[Any, str]]) -> None:
        for config, implementation in before:
            config._attn_implementation = implementation

    transformers.register()
    with _while(id(model), states, lambda: model.set_attn_implementation(transformers.NAME), leave):
        yield


@contextlib.contextmanager
def _while(what: Any, state: Callable[[], Any], enter: Callable[[], Any], leave: Callable[[Any], Any]) -> Iterator[None]:
    """Something that is otherwise as long as anybody watches, in any thread; who comes first enters, who goes last leaves."""
    with _patching:
        held = _held.setdefault(what, [0, None])
        held[0] += 1
        if held[0] == 1:
            held[1] = state()
            enter()
    try:
        yield
    finally:
        with _patching:
            held[0] -= 1
            if held[0] == 0:
                leave(_held.pop(what)[1])


@contextlib.contextmanager
def _listening(model: torch.nn.Module, watch: Watch) -> Iterator[None]:
    """Follows which module runs, and the calls of the model."""

    def before(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        if not watch._listens():
            return
        watch._running.append(module)
        if module is model:
            watch._first, watch._call = len(watch), None

    def after(module: torch.nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        if not watch._listens():
            return
        if watch._running:
            watch._running.pop()
        if module is model and output is not None:
            watch._call = (_named(model, args, kwargs), output)

    hooks = []
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(before, with_kwargs=True))
        # Also where the module raises.
        hooks.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _named(model: torch.nn.Module, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The arguments of a call by name."""
    bound = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
    given: dict[str, Any] = {}
    for name, x in bound.items():
        given |= x if name == "kwargs" and isinstance(x, dict) else {name: x}
    return {name: x for name, x in given.items() if x is not None}


class _Explainer:
    """Makes an explanation of one text of a watched call."""

    def __init__(self, watch: Watch, item: int) -> None:
        if watch.model is None:
            raise ValueError("explain: there is no model: give it to watch(model)")
        if watch._call is None:
            raise ValueError("explain: the model was not called: call it inside of `with chumoku.torch.watch(model) as seen:`")
        self.watch, self.model = watch, watch.model
        self.exclusive = True
        self.entries: list[Watched] = watch[watch._first :]
        arguments, self.output = watch._call
        tensors = [name for name, x in arguments.items() if isinstance(x, torch.Tensor) and x.dim() > 1]
        named = [name for name in ("input_ids", "inputs_embeds") if name in arguments]
        if not named + tensors or not self.entries:
            raise ValueError("explain: the last call had no tensor of tokens, or no attention was seen")
        self.main: str = [*named, *tensors][0]
        batch, length = arguments[self.main].shape[:2]
        if not -batch <= item < batch:
            raise ValueError(f"item: expected a text of the batch, from 0 to {batch - 1}, got {item}")
        self.item = item % batch
        # Of each argument what belongs to this text.
        take = lambda x: x[self.item : self.item + 1] if isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == batch else x
        self.arguments = {name: take(x) for name, x in arguments.items() if name not in ("past_key_values", "cache_position")}
        for name in ("use_cache", "logits_to_keep"):
            self.arguments.pop(name, None)
        # The loss is nobody's question; what a decoder reads is made of its labels.
        self.labels = self.arguments.pop("labels", None)
        self.is_pair = bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", False))
        if self.is_pair and self.labels is not None and "decoder_input_ids" not in self.arguments:
            self.arguments["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(self.labels)
        elif self.is_pair:
            self.labels = None
        for entry in self.entries:
            if entry.shape[0] not in (1, batch):
                raise ValueError(
                    f"explain: the model was given a batch of {batch}, and its attention one of {entry.shape[0]}: give it (batch, "
                    "tokens, …), as with batch_first=True"
                )
        padding = self.arguments.get("attention_mask")
        kept = torch.ones(length, dtype=torch.bool)
        if isinstance(padding, torch.Tensor) and padding.shape == (1, length):
            kept = padding[0].bool()
        self.kept = kept.nonzero()[:, 0]
        if not len(self.kept):
            raise ValueError(f"explain: text {item} of the batch has no token that is no padding")

    def explain(self, tokens: Sequence[str] | None, part: str | None) -> Explanation | Alignment:
        if part not in (None, "cross", "encoder", "decoder"):
            raise ValueError(f"part: expected one of cross, encoder, decoder, got {part!r}")
        if not self.is_pair and part is not None:
            raise ValueError("part: only an encoder–decoder has parts")
        if self.is_pair and part is None:
            # One that tells classes reads the text on both sides.
            tells_classes = isinstance(self.output, dict) and getattr(self.output.get("logits"), "ndim", 0) == 2
            part = "encoder" if tells_classes else "cross"
        if part == "cross":
            return self._alignment(tokens)
        entries = [entry for entry in self.entries if not _is_cross(entry, self.entries)]
        if part is not None:
            # The outermost of these: a decoder may be made of an encoder's layers.
            side = lambda entry: next((name for name in entry.module.split(".") if name in ("encoder", "decoder")), None)
            entries = [entry for entry in entries if side(entry) == part]
        if part == "decoder":
            self._read_decoder()
        return self._explanation(self._weights(entries, self.kept, self.kept), self._names(tokens), part)

    def _read_decoder(self) -> None:
        """From here on the text is what the decoder reads."""
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
            raise ValueError("explain: no such attention was seen in the last call")
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
            weights = entry.weights()[self.item if entry.shape[0] > 1 else 0].float()
            found.append(weights[:, rows][:, :, columns])
        return torch.stack(found)

    def _names(self, tokens: Sequence[str] | None) -> list[str]:
        """What tokens are called: by the caller, by the tokenizer, or by their numbers."""
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
        return self._called(ids, len(kept))

    def _called(self, ids: list[int] | None, count: int) -> list[str]:
        tokenizer = self.watch.tokenizer
        if ids is None or tokenizer is None:
            return [str(i) for i in (range(count) if ids is None else ids)]
        # A token of its own is a text too: bytes and marks of spaces become what they stand for.
        texts = [tokenizer.decode([i]).strip() for i in ids]
        return [text or str(tokenizer.convert_ids_to_tokens([i])[0]) for text, i in zip(texts, ids)]

    def _special(self) -> frozenset[int]:
        # A word that is not known stands in the text all the same.
        unknown = getattr(self.watch.tokenizer, "unk_token_id", None)
        return frozenset(getattr(self.watch.tokenizer, "all_special_ids", ())) - {unknown}

    def _run(self, rows: list[dict[str, Any]]) -> list[Any]:
        """What the model says to each of some texts, without watching."""
        paused = {id(watch): (watch, watch._is_paused) for watch in (self.watch, *_watching)}
        was_training = [module for module in self.model.modules() if module.training]
        for watch, _ in paused.values():
            watch._is_paused = True
        self.model.eval()
        try:
            with torch.no_grad():
                found = []
                for at in range(0, len(rows), _ROWS):
                    part = rows[at : at + _ROWS]
                    joined = {
                        name: torch.cat([row[name] for row in part]) if _is_of_text(x) else x for name, x in part[0].items()
                    }
                    output = self.model(**joined)
                    found += [_of_row(output, i, self._says_tokens()) for i in range(len(part))]
                return found
        finally:
            for watch, before in paused.values():
                watch._is_paused = before
            for module in was_training:
                module.training = True

    def _without(self, position: int) -> dict[str, Any]:
        """The call without a token of the text that is explained."""
        length = self.arguments[self.main].shape[1]
        left = torch.tensor([i for i in range(length) if i != position])
        of_decoder = self.main.startswith("decoder")

        def cut(name: str, x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.dim() < 2 or self.is_pair and name.startswith("decoder") != of_decoder:
                return x
            if x.dim() == 4 and x.shape[-2:] == (length, length):
                return x[..., left, :][..., left]
            if x.shape[1] != length:
                return x
            # Positions close up, as those of a text that has no such token.
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
        kind, label, probabilities, effects, similarity = self._answer(special, n, part)
        words: list[dict[str, Any]] = [{"text": name, "special": is_special} for name, is_special in zip(names, special)]
        missing = 1.0 - weights.sum(-1)
        if float(missing.max()) > 1e-3:
            # A sink takes the rest: a key of its own that no query stands at.
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
        self, special: list[bool], n: int, part: str | None
    ) -> tuple[str, str, list[tuple[str, float]], list[float], float | None]:
        """Kind, label, probabilities, the effect of each token, and the similarity, if that is what there is."""
        # Without its only token a text has nothing left to read.
        places = [(j, int(i)) for j, i in enumerate(self.kept) if not special[j]] if n > 1 else []
        [whole], without = self._run([self.arguments]), self._run([self._without(i) for _, i in places])
        effects = [0.0] * n
        logits = whole.get("logits")
        config = getattr(self.model, "config", None)
        if logits is not None and logits.dim() == 1:
            labels = getattr(config, "id2label", None) or {}
            name = lambda i: str(labels.get(i, i))
            # One number is a score, whose log-odds it is; several labels do not exclude each other.
            self.exclusive = len(logits) > 1 and getattr(config, "problem_type", None) != "multi_label_classification"
            shares = (lambda z: torch.softmax(z, -1)) if self.exclusive else torch.sigmoid
            found = [x["logits"] for x in without]
            return ("classifier", *_chosen(logits, found, places, effects, name, None, shares), None)
        if logits is not None and logits.dim() == 2 and (self._is_causal() or part == "decoder"):
            # The last token that is no padding; it stands one place earlier once any before it, or it, is gone.
            at = int(self.kept[-1])
            # As the tokenizer writes them: with a space before it, a token is another.
            tokenizer = self.watch.tokenizer
            name = lambda i: str(i) if tokenizer is None else str(tokenizer.convert_ids_to_tokens([i])[0])
            found = [x["logits"][at - 1] for x in without]
            return ("language_model", *_chosen(logits[at], found, places, effects, name, 10), None)
        vector = lambda x, without: _vector(x, self._mask(without), part)
        own = vector(whole, None)
        for (j, i), other in zip(places, without):
            effects[j] = 1.0 - float(F.cosine_similarity(own, vector(other, i), dim=0))
        words = [name for name, is_special in zip(self._names(None), special) if not is_special]
        return "encoder", " ".join(words) or "the text", [], effects, 1.0

    def _says_tokens(self) -> bool:
        """Whether the model has a head for tokens."""
        head = getattr(self.model, "get_output_embeddings", None)
        return head is not None and head() is not None

    def _is_causal(self) -> bool:
        config = getattr(self.model, "config", None)
        return bool(getattr(config, "is_decoder", False)) or type(self.model).__name__.endswith(("ForCausalLM", "LMHeadModel"))

    def _mask(self, without: int | None) -> torch.Tensor | None:
        call = self.arguments if without is None else self._without(without)
        mask = call.get("attention_mask")
        return mask[0].bool() if isinstance(mask, torch.Tensor) and mask.dim() == 2 else None

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
            # What is not to be learnt is no part of the translation.
            labels = [label for label in labels if label >= 0]
            read_ids = read_ids[: len(labels)]
        entries = [entry for entry in self.entries if _is_cross(entry, self.entries)]
        rows = torch.arange(len(read_ids))
        weights = self._weights(entries, rows, self.kept)
        source = self._names(tokens)
        # Each row of the decoder says the next token; what the last says is its most probable.
        special, known = self._special(), self.arguments["input_ids"][0, self.kept].tolist()
        is_special = [i in special for i in known]
        places = [(j, int(i)) for j, i in enumerate(self.kept) if not is_special[j]]
        self.arguments["decoder_input_ids"] = torch.tensor([read_ids])
        self.arguments.pop("decoder_attention_mask", None)
        [whole], without = self._run([self.arguments]), self._run([self._without(i) for _, i in places])
        log_p = torch.log_softmax(whole["logits"].float(), -1)
        said = labels if labels is not None else [*read_ids[1:], int(log_p[-1].argmax())]
        target = self._called(said, len(said))
        at = torch.tensor(said)[:, None]
        own = log_p.gather(1, at)[:, 0]
        effects: list[list[float | None]] = [[None] * len(source) for _ in said]
        for (j, _), other in zip(places, without):
            change = own - torch.log_softmax(other["logits"].float(), -1).gather(1, at)[:, 0]
            for row, x in zip(effects, change.tolist()):
                row[j] = x
        words = lambda names, flags: [{"text": name, "special": flag} for name, flag in zip(names, flags)]
        found = read(
            {
                "model": _name(self.model),
                "source": " ".join(name for name, flag in zip(source, is_special) if not flag),
                "target": " ".join(name for name, i in zip(target, said) if i not in special),
                "is_given": True,
                "is_cut": False,
                "source_words": words(source, is_special),
                "target_words": words(target, [i in special for i in said]),
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


# What attention to another text is called in models of transformers, and in PyTorch's decoder beside `self_attn`.
_CROSS = frozenset(("crossattention", "cross_attn", "cross_attention", "encoder_attn", "EncDecAttention"))


def _is_cross(entry: Watched, among: Sequence[Watched]) -> bool:
    """Whether a call is of attention to another text, by its module's name."""
    parent, _, own = entry.module.rpartition(".")
    if own == "multihead_attn":
        return any(other.module == f"{parent}.self_attn" for other in among)
    return not _CROSS.isdisjoint(entry.module.split("."))


def _is_of_text(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == 1


def _of_row(output: Any, i: int, says_tokens: bool) -> dict[str, Any]:
    """What a model said to one text of a batch: its tensors by name; `says_tokens` if they may be logits of tokens."""
    if not isinstance(output, dict):
        first = output if isinstance(output, torch.Tensor) else output[0]
        output = {"logits" if first.dim() == 2 or says_tokens else "last_hidden_state": first}
    return {name: x[i] for name, x in output.items() if isinstance(x, torch.Tensor) and x.dim() > 1}


def _vector(found: dict[str, Any], mask: torch.Tensor | None, part: str | None) -> torch.Tensor:
    """The mean of a text's vectors; of what a model says of each token, if it hands no vectors on."""
    states = found.get("encoder_last_hidden_state" if part == "encoder" else "last_hidden_state")
    if states is None:
        states = found.get("logits", next((x for x in found.values() if x.dim() == 2), None))
    if states is None:
        raise ValueError("explain: the model's output has neither logits nor vectors")
    states = states if states.dim() == 2 else states[None]
    return (states[mask] if mask is not None and len(mask) == len(states) else states).float().mean(0)


def _chosen(
    logits: torch.Tensor,
    without: list[Any],
    places: list[tuple[int, int]],
    effects: list[float],
    name: Callable[[int], str],
    most: int | None,
    shares: Callable[[torch.Tensor], torch.Tensor] = lambda z: torch.softmax(z, -1),
) -> tuple[str, list[tuple[str, float]], list[float]]:
    """The label, the probabilities, and the change in the label's log-odds without each token."""
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
