"""Intercepts attention calls inside a model: PyTorch's functions, and code that computes attention step by step."""

from __future__ import annotations

import collections
import threading
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.nn.functional as F

from ._arrays import Statistics

if TYPE_CHECKING:
    from ._watch import Watch

# Held while a PyTorch function is replaced.
PATCHING = threading.RLock()

# PyTorch's original function, whatever replaces it temporarily.
_SDPA = F.scaled_dot_product_attention

_Tensor = torch.Tensor
_SOFTMAX = frozenset((F.softmax, torch.softmax, torch.special.softmax, _Tensor.softmax))
# Functions that pass weights on: dropout or a conversion returns the weights in other memory.
_PASS_THROUGH = frozenset((
    F.dropout, torch.dropout, _Tensor.to, _Tensor.type, _Tensor.type_as, _Tensor.float, _Tensor.half, _Tensor.bfloat16,
    _Tensor.contiguous, _Tensor.clone, _Tensor.reshape, torch.reshape, _Tensor.masked_fill, torch.masked_fill,
))  # fmt: skip
_PRODUCTS = frozenset((torch.matmul, torch.bmm, torch.einsum, _Tensor.matmul, _Tensor.bmm, _Tensor.__matmul__))

# The number of recent softmax results that may still turn out to be weights.
_PENDING = 4

# Attribute names for a module's number of heads.
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead")


def is_plain(x: torch.Tensor) -> bool:
    """Returns true if the tensor's elements can be read. Under a trace or a transformation they cannot."""
    of_torch = type(x) in (torch.Tensor, torch.nn.Parameter)
    return of_torch and x.device.type == "cpu" and not x.is_nested and not torch._C._functorch.is_functorch_wrapped_tensor(x)


def weighed(weights: torch.Tensor, top: int) -> Statistics:
    """Computes statistics from existing weights: (batch, heads, queries, keys)."""
    shares = weights.float()
    entropy = torch.special.entr(shares).sum(-1)
    found, keys = shares.topk(min(top, shares.shape[-1]), -1)
    # Masked keys have no weight, so there may be fewer keys than requested.
    keys = F.pad(keys.masked_fill(found <= 0, -1), (0, top - found.shape[-1]), value=-1)
    return Statistics(shares.sum(-2), entropy, keys, F.pad(found, (0, top - found.shape[-1])))


class Calls(torch.overrides.TorchFunctionMode):
    """Intercepts PyTorch's own functions."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        # The last softmax results, each with the tensors that hold its values, and the memory address of each.
        self._pending: collections.deque[tuple[torch.Tensor, list[torch.Tensor]]] = collections.deque(maxlen=_PENDING)

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not self.watch._is_recording():
            return function(*args, **kwargs)
        if function is F.multi_head_attention_forward:
            return self._multi_head(function, args, kwargs)
        result = function(*args, **kwargs)
        if function is _SDPA:
            self._collect(*args, **kwargs)
        elif function in _SOFTMAX:
            self._weights_or_not(result, *args, **kwargs)
        elif self._pending and function in _PASS_THROUGH:
            self._follow(args[0] if args else None, result)
        elif self._pending and function in _PRODUCTS:
            self._multiplied(args)
        return result

    def _multi_head(self, function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
        # The module function calls the other by its name in that module, and an active mode does not intercept that
        # call.
        with PATCHING:
            plain = F.scaled_dot_product_attention

            def seen(*args: Any, **kwargs: Any) -> torch.Tensor:
                result = plain(*args, **kwargs)
                self._collect(*args, **kwargs)
                return result

            F.scaled_dot_product_attention = seen
            try:
                if not kwargs.get("need_weights", True):
                    return function(*args, **kwargs)
                # With need_weights it computes the weights itself. A second run makes it call the intercepted function.
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
        from .torch import _as_rank_4

        if not all(map(is_plain, (query, key, value))):
            return
        rank = max(query.dim(), key.dim(), value.dim())
        q, k, v, mask, _ = _as_rank_4(query, key, value, attn_mask, rank, enable_gqa)
        running = self.watch._running
        options = {"causal": "top_left" if is_causal else None, "mask": mask, "scale": scale}
        self.watch._collect(running[-1] if running else None, (q, k, v), options)

    # Attention step by step: a softmax over the last axis, and a product with its result.

    def _weights_or_not(self, result: torch.Tensor, x: Any = None, dim: Any = None, *args: Any, **kwargs: Any) -> None:
        if is_plain(result) and result.dim() >= 3 and result.numel() and dim in (-1, result.dim() - 1):
            self._pending.append((result.detach(), [result]))

    def _pending_of(self, x: Any) -> tuple[torch.Tensor, list[torch.Tensor]] | None:
        if not isinstance(x, torch.Tensor) or not is_plain(x):
            return None
        place = x.untyped_storage().data_ptr()
        return next((each for each in self._pending if any(place == y.untyped_storage().data_ptr() for y in each[1])), None)

    def _follow(self, x: Any, result: Any) -> None:
        found = self._pending_of(x)
        if found is not None and isinstance(result, torch.Tensor) and is_plain(result) and result.numel() == found[0].numel():
            found[1].append(result)

    def _multiplied(self, args: tuple) -> None:
        if args and isinstance(args[0], str):
            args = tuple(args[1]) if isinstance(args[1], (list, tuple)) else args[1:]
        found = self._pending_of(args[0]) if args else None
        # Must have the shape of the softmax result: with another last axis they are not weights of keys.
        if found is None or args[0].shape[-1] != found[0].shape[-1]:
            return
        # (Tensors have no suitable equality.)
        self._pending = collections.deque((each for each in self._pending if each is not found), _PENDING)
        weights = found[0]
        if weights.dim() == 3:
            running = self.watch._running
            heads = next((n for name in _HEADS if isinstance(n := getattr(running[-1] if running else None, name, None), int)), 1)
            heads = heads if heads > 0 and weights.shape[0] % heads == 0 else 1
            weights = weights.unflatten(0, (-1, heads))
        self.watch._collect_weights(weights.flatten(0, -4) if weights.dim() > 4 else weights)
