"""Records where a PyTorch model looks, for :func:`chumoku.torch.watch`; `_watch_page` shows it."""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
from typing import Any, Callable, Iterator, Sequence

import torch

from ._functions import attention
from ._pages import Alignment, Explanation
from ._watch_calls import PATCHING, Calls, is_plain, weighed

# Active watches, innermost last.
watching: list[Watch] = []

# Settings changed while a watch is active: the number of watches that need each change, and the previous value.
_held: dict[Any, list] = {}


class Watched:
    """The record of one attention call.

    Attributes:
        module: the name of the attention module in the model, or its class.
        layer: the layer, from 0, if the module or its name has one.
        entropy: the entropy of each query's weights in nats: (batch, heads, queries).
        mass: the weight that each key receives, summed over queries: (batch, heads, keys).
        top_keys: the keys with the largest weights of each query: (batch, heads, queries, count); −1 if there are
            fewer.
        top_weights: their weights.
    """

    def __init__(self, module: str, layer: int | None, statistics: Any, weights: Callable[[], torch.Tensor]) -> None:
        self.module = module
        self.layer = layer
        self.entropy: torch.Tensor = statistics.entropy
        self.mass: torch.Tensor = statistics.mass
        self.top_keys: torch.Tensor = statistics.top_keys
        self.top_weights: torch.Tensor = statistics.top_weights
        self._weights = weights

    def weights(self) -> torch.Tensor:
        """All weights, (batch, heads, queries, keys), recomputed from the stored queries and keys.

        For a model with custom attention code, these are the model's own weights.
        """
        with torch.no_grad():
            return self._weights()

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return (*self.entropy.shape, self.mass.shape[-1])

    def __repr__(self) -> str:
        return f"<Watched {self.module}: {' x '.join(map(str, self.shape))}, mean entropy {self.entropy.mean():.3f} nats>"


class Watch(Sequence[Watched]):
    """The recorded attention calls, in order.

    :meth:`explain` and :meth:`show` refer to the model's last call.
    """

    def __init__(self, model: torch.nn.Module | None, tokenizer: Any, top: int) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._top = top
        self._names = {} if model is None else {id(module): name for name, module in model.named_modules()}
        self._entries: list[Watched] = []
        # The stack of running modules, the model's last call with its output, and the index of its first entry.
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
        """Removes all recorded calls."""
        self._entries.clear()
        self._call, self._first = None, 0

    def explain(self, item: int = 0, *, tokens: Sequence[str] | None = None, part: str | None = None) -> Explanation | Alignment:
        """Explains one text of the model's last call, with every weight and the effect of each token on the answer.

        The answer is the model's class or next token. For a model without such a head, it is the mean of its vectors.
        The effect of a token comes from running the model on the text without it.

        Args:
            item: the index of the text in the batch.
            tokens: the displayed tokens; by default from ``tokenizer``.
            part: for an encoder–decoder: ``"cross"`` (an :class:`Alignment`; the default), ``"encoder"`` or
                ``"decoder"``. If the call had no labels, the last word of an alignment is the model's next token.

        Raises:
            ValueError: there was no call, or the call did not read whole texts without a cache.
        """
        from ._watch_page import Explainer

        return Explainer(self, item).explain(tokens, part)

    def show(
        self,
        item: int = 0,
        *,
        tokens: Sequence[str] | None = None,
        part: str | None = None,
        lang: str = "en",
        height: int = 900,
    ) -> None:
        """Shows the page of ``chumoku explain`` in a notebook. It takes the arguments of :meth:`explain`."""
        self.explain(item, tokens=tokens, part=part).show(lang, height)

    # Callbacks during recorded calls.

    def _add(self, module: torch.nn.Module | None, statistics: Any, weights: Callable[[], torch.Tensor]) -> None:
        name = self._names.get(id(module), type(module).__name__)
        layer = getattr(module, "layer_idx", None)
        if layer is None:
            numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
            layer = int(numbers[-1]) if numbers else None
        self._entries.append(Watched(name, layer, statistics, weights))

    def _collect(self, module: torch.nn.Module | None, inputs: tuple, options: dict[str, Any]) -> None:
        if not self._is_recording() or not self._has(module) or not all(map(is_plain, inputs)):
            return
        detached = tuple(x.detach() for x in inputs)
        options = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        with torch.no_grad():
            found = attention(*detached, **options, statistics=("mass", "entropy", f"top:{self._top}"))
        self._add(module, found.statistics, lambda: attention(*detached, **options, return_weights=True).weights)

    def _collect_weights(self, weights: torch.Tensor) -> None:
        """Records attention that other code computed: (batch, heads, queries, keys)."""
        module = self._running[-1] if self._running else None
        if self._has(module):
            self._add(module, weighed(weights, self._top), lambda: weights)

    def _is_recording(self) -> bool:
        """Returns true if a call of this thread must be recorded."""
        return not self._is_paused and threading.get_ident() == self._thread

    def _has(self, module: torch.nn.Module | None) -> bool:
        return self.model is None or id(module) in self._names


def collect(
    module: torch.nn.Module | None, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], options: dict[str, Any]
) -> None:
    """Passes an attention call to the active watches."""
    for watch in watching:
        watch._collect(module, inputs, options)


@contextlib.contextmanager
def watch(model: torch.nn.Module | None = None, tokenizer: Any = None, *, top: int = 8) -> Iterator[Watch]:
    """Records statistics of every attention call, at any length, without an array of queries × keys.

    A model of transformers runs with ``attn_implementation="chumoku"`` inside, if it supports that. For other models,
    calls of ``torch.nn.functional.scaled_dot_product_attention`` and ``torch.nn.MultiheadAttention`` are recorded. For
    custom attention code, each softmax whose result is multiplied by something is recorded, and the model's weights are
    kept. Each thread records its own calls. Queries and keys are kept as long as the watch exists. Code compiled by
    ``torch.compile`` runs uncompiled inside.

    >>> with chumoku.torch.watch(model, tokenizer) as seen:                            # doctest: +SKIP
    ...     model(**tokenizer("a text", return_tensors="pt"))
    >>> seen[0].entropy.mean()                                                         # doctest: +SKIP
    >>> seen.show()                                                                    # doctest: +SKIP

    Args:
        model: the model to record. Without it all calls are recorded, but there is no page.
        tokenizer: gives the names of tokens on the page.
        top: the number of strongest keys to keep per query.
    """
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(top, int) or top < 1:
        raise ValueError(f"top: expected a whole number from 1 on, got {top!r}")
    # Unwraps a compiled model.
    model = getattr(model, "_orig_mod", model)
    watch = Watch(model, tokenizer, top)
    with contextlib.ExitStack() as stack:
        # Compiled graphs bypass the recording, and code compiled here would keep the temporary changes.
        eager = lambda: torch.compiler.set_stance("force_eager")
        stack.enter_context(_temporarily("compiled", eager, lambda: None, lambda stance: stance.__exit__(None, None, None)))
        if model is not None:
            stack.enter_context(_as_chumoku(model))
            stack.enter_context(_tracking(model, watch))
        # The kernel of nn.TransformerEncoder bypasses the recording.
        set_fast = torch.backends.mha.set_fastpath_enabled
        stack.enter_context(_temporarily("fast path", torch.backends.mha.get_fastpath_enabled, lambda: set_fast(False), set_fast))
        watching.append(watch)
        stack.callback(watching.remove, watch)
        stack.enter_context(Calls(watch))
        yield watch


@contextlib.contextmanager
def _as_chumoku(model: torch.nn.Module) -> Iterator[None]:
    """Runs a model of transformers with this attention while the context is active."""
    if not hasattr(model, "set_attn_implementation"):
        yield
        return
    from . import transformers

    def states() -> list[tuple[Any, str]]:
        # Submodules may have their own configuration.
        configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
        return [(config, config._attn_implementation) for config in configs.values() if hasattr(config, "_attn_implementation")]

    def leave(before: list[tuple[Any, str]]) -> None:
        for config, implementation in before:
            config._attn_implementation = implementation

    def enter() -> None:
        before = states()
        try:
            model.set_attn_implementation(transformers.NAME)
        except ValueError:
            # The model has custom attention code. Its softmax is recorded.
            leave(before)

    transformers.register()
    with _temporarily(id(model), states, enter, leave):
        yield


@contextlib.contextmanager
def _temporarily(what: Any, state: Callable[[], Any], enter: Callable[[], Any], leave: Callable[[Any], Any]) -> Iterator[None]:
    """A change that lasts while any watch in any thread needs it. The first watch applies it, the last one undoes it.
    """
    with PATCHING:
        held = _held.setdefault(what, [0, None])
        held[0] += 1
        if held[0] == 1:
            held[1] = state()
            enter()
    try:
        yield
    finally:
        with PATCHING:
            held[0] -= 1
            if held[0] == 0:
                leave(_held.pop(what)[1])


@contextlib.contextmanager
def _tracking(model: torch.nn.Module, watch: Watch) -> Iterator[None]:
    """Tracks the running module and the calls of the model."""

    # If another thread ends its watch during a call, PyTorch calls the hooks of that watch without keyword arguments.
    def before(module: torch.nn.Module, args: tuple, kwargs: dict | None = None) -> None:
        if not watch._is_recording():
            return
        watch._running.append(module)
        if module is model:
            watch._first, watch._call = len(watch), None

    def after(module: torch.nn.Module, args: tuple, *kwargs_and_output: Any) -> None:
        if not watch._is_recording():
            return
        kwargs, output = kwargs_and_output
        if watch._running:
            watch._running.pop()
        if module is model and output is not None:
            watch._call = (_named(model, args, kwargs), output)

    hooks = []
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(before, with_kwargs=True))
        # Runs even if the module raises.
        hooks.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _named(model: torch.nn.Module, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Returns the arguments of a call by name."""
    bound = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
    given: dict[str, Any] = {}
    for name, x in bound.items():
        given |= x if name == "kwargs" and isinstance(x, dict) else {name: x}
    return {name: x for name, x in given.items() if x is not None}
