"""Chumoku's attention in PyTorch: functions on tensors, with gradients, and a provider for PyTorch's own function.

``activate()`` makes every program that calls ``torch.nn.functional.scaled_dot_product_attention`` on the CPU run on
these kernels; ``deactivate()`` undoes it. ``explain()`` returns which path a call takes, and why. ``watch()`` shows
where a model looks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention.bias import CausalBias, CausalVariant

from . import _chumoku
from ._arrays import AttentionResult, Statistics, top_count
from ._operators import (
    _FLOATS, _OP_STATISTICS, _OP_WEIGHTS, _backward_rows, _call, _check_dense, _memory, _plan, _read, _kernel_mask, _settings, _sums,
)  # fmt: skip
from ._watch import Watch, Watched, watch

__all__ = ["Watch", "Watched", "activate", "deactivate", "explain", "is_active", "watch"]

# ---------------------------------------------------------------------------------------------------------------------
# Functions that the package calls for tensors.


def _seed(dropout: float, seed: int | None) -> torch.Tensor | None:
    """Returns the seed tensor of dropout. Without a seed it comes from PyTorch's generator, so that torch.manual_seed
    makes it reproducible."""
    if not dropout:
        return None
    if seed is None:
        return torch.randint(0, 2**63 - 1, (), device="cpu")
    return torch.tensor(seed, dtype=torch.int64, device="cpu")


def _plain_settings(diagonal: str | None, scale: float | None, dropout: float = 0.0) -> str:
    """Checks the shapes as PyTorch's function does."""
    settings = f"causal=True;diagonal={diagonal}" if diagonal else ""
    if scale is not None:
        settings += f";scale={float(scale)!r}"
    return f"{settings};dropout={dropout}" if dropout else settings


def _autocast(*tensors: torch.Tensor | None) -> tuple:
    """Converts tensors to the type of `torch.autocast`, as it does for PyTorch's own function."""
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(x.to(dtype) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors)


def _diagonal(bias: CausalBias, query: torch.Tensor, key: torch.Tensor) -> str:
    """Returns the diagonal of a causal bias. (Its memory holds no numbers.)"""
    sizes, query_and_key_lengths = (bias.seq_len_q, bias.seq_len_kv), (query.shape[-2], key.shape[-2])
    if sizes != query_and_key_lengths:
        raise RuntimeError(f"attn_mask: expected a causal bias of {query_and_key_lengths} queries and keys, got {sizes}")
    return "top_left" if bias.variant == CausalVariant.UPPER_LEFT else "bottom_right"


def _check(arrays: tuple, rank: int) -> None:
    for what, x in zip(("query", "key", "value"), arrays):
        if x.device.type not in ("cpu", "meta"):
            raise ValueError(f"{what}: expected a tensor on the CPU, got one on {x.device}")
        if x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            raise TypeError(f"{what}: expected float32, float64, bfloat16 or float16, got {x.dtype}")
        if x.dtype != arrays[0].dtype:
            raise TypeError(f"{what}: expected {arrays[0].dtype} as of query, got {x.dtype}")
        if x.dim() != rank:
            expected = "(batch, heads, length, width)" if rank == 4 else "(tokens, heads, width)"
            raise ValueError(f"{what}: expected shape {expected}, got {tuple(x.shape)}")


def attention(
    arrays: tuple,
    mask: torch.Tensor | None,
    sinks: torch.Tensor | None,
    options: dict,
    seed: int | None,
    precision: str | None,
    return_lse: bool,
    return_weights: bool,
    statistics: tuple[str, ...],
) -> AttentionResult:
    """See :func:`chumoku.attention`, which has checked the arguments that all arrays share."""
    query, key, value = arrays
    if mask is not None and isinstance(mask, CausalBias):
        mask = mask._materialize(query.device)
    if torch.is_autocast_enabled("cpu"):
        query, key, value, mask = _autocast(query, key, value, mask)
        arrays = (query, key, value)
    rank = 4 if options["query_offsets"] is None else 3
    dtype, is_here = query.dtype, query.is_cpu and key.is_cpu and value.is_cpu
    are_of_rank = query.dim() == key.dim() == value.dim() == rank
    if not (is_here and are_of_rank and dtype == key.dtype == value.dtype and dtype in _FLOATS):
        # Raises the specific error if the arguments are wrong.
        _check(arrays, rank)
    if options["softcap"] is not None and not options["softcap"] > 0:
        raise ValueError(f"softcap: expected a number above 0, got {options['softcap']}")
    mask = _kernel_mask(mask, query.dtype)
    if sinks is not None:
        sinks = sinks.to(torch.float32).contiguous()
    settings = _settings(options | {"precision": precision})
    random = _seed(options["dropout"], seed)
    output, log_sum_exp = _call(query, key, value, mask, sinks, random, settings, return_lse)
    weights = found = None
    if return_weights or statistics:
        inputs = (query, key, value, mask, sinks, random, settings)
        with torch.no_grad():
            weights = _OP_WEIGHTS(*inputs) if return_weights else None
            if statistics:
                count = top_count(statistics)
                requested = ("mass" in statistics, "entropy" in statistics, count > 0, count > 0)
                results = _OP_STATISTICS(*inputs, *requested[:2], count)
                found = Statistics(*(x if is_requested else None for x, is_requested in zip(results, requested)))
    return AttentionResult(output, log_sum_exp if return_lse else None, weights, found)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """See :func:`chumoku.scaled_dot_product_attention`."""
    if attn_mask is not None and is_causal:
        raise RuntimeError("expected attn_mask or is_causal, not both")
    diagonal = "top_left" if is_causal else None
    if attn_mask is not None and isinstance(attn_mask, CausalBias):
        diagonal, attn_mask = _diagonal(attn_mask, query, key), None
    if torch.is_autocast_enabled("cpu"):
        query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
    rank, of_key, of_value = query.dim(), key.dim(), value.dim()
    if not rank == of_key == of_value == 4:
        if min(rank, of_key, of_value) < 2:
            raise RuntimeError("expected tensors of two axes or more")
        rank = max(rank, of_key, of_value)
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(f"attn_mask: expected bool, float32 or {query.dtype} as of query, got {attn_mask.dtype}")
    shape = None
    try:
        if not rank == of_key == of_value == 4 or (
            query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3]
        ):
            query, key, value, attn_mask, shape = _as_rank_4(query, key, value, attn_mask, rank, enable_gqa)
    except RuntimeError:
        # Nested tensors have no shape.
        _check_dense(query=query, key=key, value=value)
        raise
    dtype = query.dtype
    if not (query.is_cpu and key.is_cpu and value.is_cpu and dtype == key.dtype == value.dtype and dtype in _FLOATS):
        _check((query, key, value), 4)
    settings = _plain_settings(diagonal, scale, dropout_p)
    output = _call(query, key, value, _kernel_mask(attn_mask, dtype), None, _seed(dropout_p, None), settings, False)[0]
    return output if shape is None else output.reshape(*shape, output.shape[-1])


def _as_rank_4(query, key, value, mask, rank, enable_gqa):
    """Converts tensors of any rank to (batch, heads, length, width). Returns them with the mask and the output shape
    except its width."""
    q, k, v = (x.reshape((1,) * (rank - x.dim()) + tuple(x.shape)) for x in (query, key, value))
    if enable_gqa and rank >= 3:
        inner = 3
        if q.shape[-3] % max(k.shape[-3], 1) or k.shape[-3] != v.shape[-3]:
            raise RuntimeError(f"expected a divisor of {q.shape[-3]} heads, got {k.shape[-3]} and {v.shape[-3]} key heads")
    else:
        inner = 2
    try:
        leading = torch.broadcast_shapes(*(x.shape[:-inner] for x in (q, k, v)))
    except RuntimeError as error:
        hint = "" if enable_gqa else " (enable_gqa=True lets fewer key heads serve several heads)"
        raise RuntimeError(f"expected shapes that fit together, got {[tuple(x.shape) for x in (q, k, v)]}{hint}") from error
    q, k, v = (x.expand(*leading, *x.shape[-inner:]) for x in (q, k, v))
    shape = q.shape[:-1]
    if mask is not None and rank > 4:
        mask = mask.expand(*shape, k.shape[-2]).flatten(0, -4)
    # Missing leading axes count as 1. With three axes, the first is the head axis.
    if rank < 4:
        q, k, v = (x.reshape((1,) * (4 - rank) + tuple(x.shape)) for x in (q, k, v))
    elif rank > 4:
        q, k, v = (x.flatten(0, -4) for x in (q, k, v))
    return q, k, v, mask, shape


# ---------------------------------------------------------------------------------------------------------------------
# The provider for torch.nn.functional.scaled_dot_product_attention.

_provider: torch.library.Library | None = None


def _sdpa_forward(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    # PyTorch uses its plain path for dropout of weights.
    plan = _plan(None, _plain_settings("top_left" if is_causal else None, scale))
    b, h, n, _ = query.shape
    # The output shapes that PyTorch promises to compiled graphs for this operator.
    output = torch.empty_like(query)
    log_sum_exp = query.new_empty(b, n, h, dtype=_sums(query.dtype)).transpose(1, 2)
    rows = log_sum_exp if h == 1 or n == 1 else torch.empty_like(log_sum_exp, memory_format=torch.contiguous_format)
    written = output if output.stride(-1) == 1 or output.shape[-1] <= 1 else torch.empty_like(output, memory_format=torch.contiguous_format)
    mask = _kernel_mask(attn_mask, query.dtype)
    (query, q), (key, k), (value, v) = _read(query), _read(key), _read(value)
    _chumoku.attention_forward(plan, q, k, v, _memory(mask), None, _memory(written), _memory(rows))
    if rows is not log_sum_exp:
        log_sum_exp.copy_(rows)
    if written is not output:
        output.copy_(written)
    return output, log_sum_exp


def _sdpa_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    if grad_out is None:
        # No gradient flows through the output.
        return None, None, None
    settings = _plain_settings("top_left" if is_causal else None, scale)
    mask = _kernel_mask(attn_mask, query.dtype)
    # Compiled graphs rely on these strides.
    results = [torch.empty_permuted(x.shape, (0, 2, 1, 3), dtype=x.dtype, device=x.device) for x in (query, key, value)]
    _backward_rows(
        query, key, value, mask, None, None, out, logsumexp.contiguous(), grad_out, None, (*results, None, None), settings
    )
    return tuple(results)


def is_active() -> bool:
    """Returns true if ``torch.nn.functional.scaled_dot_product_attention`` runs on these kernels."""
    return _provider is not None


def activate() -> None:
    """Makes ``torch.nn.functional.scaled_dot_product_attention`` run on these kernels on the CPU.

    Programs, modules and compiled graphs that call it need no change, gradients included. Calls that PyTorch does not
    pass to a fused kernel (dropout, masks that need a gradient, values of another width) stay on its own path.
    ``explain()`` reports them, and ``chumoku.scaled_dot_product_attention`` supports them.
    """
    global _provider
    if _provider is not None:
        return
    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_dot_product_flash_attention_for_cpu", _sdpa_forward, "CPU", allow_override=True)
    library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", _sdpa_backward, "CPU", allow_override=True)
    _provider = library


def deactivate() -> None:
    """Restores PyTorch's own kernels for ``torch.nn.functional.scaled_dot_product_attention``."""
    global _provider
    if _provider is not None:
        _provider._destroy()
        _provider = None


def explain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    """Returns which path this call of ``scaled_dot_product_attention`` takes now, and why, in a sentence or two."""
    why = None
    if isinstance(attn_mask, CausalBias):
        attn_mask = attn_mask._materialize(query.device)
    tensors = (query, key, value)
    grad = torch.is_grad_enabled()
    if any(x.device.type != "cpu" for x in tensors):
        return f"PyTorch's kernels for {query.device.type}: these are for the CPU."
    if query.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return f"None: expected float32, float64, bfloat16 or float16, got {query.dtype}."
    elif dropout_p > 0:
        why = "dropout of weights is not handed to fused kernels on the CPU"
    elif any(x.dim() not in (3, 4) for x in tensors):
        why = f"tensors have {query.dim()} axes, fused kernels take 3 or 4"
    elif value.shape[-1] != query.shape[-1]:
        why = f"values are {value.shape[-1]} wide and queries {query.shape[-1]}"
    elif any(x.stride(-1) != 1 for x in tensors):
        why = "the numbers of a row do not lie side by side"
    elif 0 in (query.shape[-2], key.shape[-2]):
        why = "there are no queries or no keys"
    elif attn_mask is not None and attn_mask.requires_grad and grad:
        why = "the mask needs a gradient"
    if why is not None:
        return f"PyTorch's plain path, which holds all weights: {why}. chumoku.scaled_dot_product_attention takes it."
    if not is_active():
        return "PyTorch's fused kernel for the CPU: chumoku.torch.activate() has not been called."
    # With three axes, the first is the head axis.
    query, key, value = (x if x.dim() == 4 else x[None] for x in tensors)
    settings = _plain_settings("top_left" if is_causal else None, scale)
    mask = _kernel_mask(attn_mask, query.dtype)
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), None)
    return f"Chumoku: {_chumoku.attention_plan(_plan(None, settings), *reads)}."
