"""Attention on NumPy arrays and on anything that can be viewed as one."""

from __future__ import annotations

import math
from typing import Any

from . import _chumoku
from ._arrays import FLOATING, AttentionResult, Statistics, describe_array, like, to_numpy, top_count


def _described(what: str, x: Any, rank: int) -> tuple:
    """Returns the NumPy array, its memory, and the name of its element type."""
    array = to_numpy(what, x)
    kept, memory = describe_array(what, array)
    if memory[1] not in FLOATING:
        raise TypeError(f"{what}: expected an array of {', '.join(FLOATING)}, got {memory[1]}")
    if array.ndim != rank:
        expected = "(batch, heads, length, width)" if rank == 4 else "(tokens, heads, width)"
        raise ValueError(f"{what}: expected shape {expected}, got {array.shape}")
    return kept, memory


def _mask(mask: Any, sums: Any, numpy: Any) -> tuple:
    if mask is None:
        return None, None
    mask = to_numpy("mask", mask)
    if mask.dtype != numpy.bool_:
        if mask.dtype.kind != "f" and "float" not in mask.dtype.name:
            raise TypeError(f"mask: expected booleans, or numbers to add to scores, got {mask.dtype.name}")
        if mask.dtype != sums:
            # Converts each value of a broadcast mask once.
            small = tuple(slice(0, 1) if step == 0 else slice(None) for step in mask.strides)
            mask = numpy.broadcast_to(mask[small].astype(sums), mask.shape)
    # The kernels read masks of any strides, so a broadcast mask stays small.
    return describe_array("mask", mask, rows=False)


def attention(
    arrays: tuple,
    mask: Any,
    sinks: Any,
    options: dict,
    seed: int | None,
    precision: str | None,
    return_lse: bool,
    return_weights: bool,
    statistics: tuple[str, ...],
) -> AttentionResult:
    """See :func:`chumoku.attention`, which has checked the arguments that all arrays share."""
    import numpy

    packed = options["query_offsets"] is not None
    (query, q), (key, k), (value, v) = (
        _described(what, x, 3 if packed else 4) for what, x in zip(("query", "key", "value"), arrays)
    )
    for what, x in (("key", k), ("value", v)):
        if x[1] != q[1]:
            raise TypeError(f"{what}: expected {q[1]} as of query, got {x[1]}")
    sums = numpy.float64 if q[1] == "float64" else numpy.float32
    mask, m = _mask(mask, sums, numpy)
    if sinks is not None:
        sinks = numpy.ascontiguousarray(to_numpy("sinks", sinks), numpy.float32)
    s = None if sinks is None else describe_array("sinks", sinks)[1]
    if options["dropout"] and seed is None:
        seed = int(numpy.random.randint(0, 2**63 - 1, dtype=numpy.int64))
    plan = _chumoku.Options(**options, seed=seed or 0, precision=precision or "highest")

    def results(shape: tuple, dtype: Any = sums) -> tuple:
        array = numpy.empty(shape, dtype)
        return array, describe_array("result", array)[1]

    out, o = results((*query.shape[:-1], value.shape[-1]), query.dtype)
    rows = (query.shape[1], query.shape[0]) if packed else query.shape[:3]
    lse, e = results(rows) if return_lse else (None, None)
    reads = (plan, q, k, v, m, s)
    _chumoku.attention_forward(*reads, o, e)
    weights = found = None
    if return_weights:
        weights, w = results((*rows, key.shape[2]))
        _chumoku.attention_weights(*reads, w)
    if statistics:
        count = top_count(statistics)
        mass, of_mass = results((*rows[:2], key.shape[2])) if "mass" in statistics else (None, None)
        entropy, of_entropy = results(rows) if "entropy" in statistics else (None, None)
        keys, of_keys = results((*rows, count), numpy.int64) if count else (None, None)
        tops, of_tops = results((*rows, count)) if count else (None, None)
        _chumoku.attention_statistics(*reads, of_mass, of_entropy, of_keys, of_tops)
        found = Statistics(*(x if x is None else like(arrays[0], x) for x in (mass, entropy, keys, tops)))
    out, lse, weights = (x if x is None else like(arrays[0], x) for x in (out, lse, weights))
    return AttentionResult(out, lse, weights, found)


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: float | None, enable_gqa: bool
) -> Any:
    """See :func:`chumoku.scaled_dot_product_attention`."""
    import numpy

    from ._functions import attention as of_four

    arrays = [to_numpy(what, x) for what, x in (("query", query), ("key", key), ("value", value))]
    if attn_mask is not None and is_causal:
        raise ValueError("expected attn_mask or is_causal, not both")
    if min(x.ndim for x in arrays) < 2:
        raise ValueError(f"expected arrays of two axes or more, got {[x.shape for x in arrays]}")
    rank = max(x.ndim for x in arrays)
    q, k, v = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays)
    if rank >= 3 and not enable_gqa and (q.shape[-3] != k.shape[-3] and 1 not in (q.shape[-3], k.shape[-3])):
        raise ValueError(f"expected as many key heads as heads without enable_gqa, got {k.shape[-3]} and {q.shape[-3]}")
    # Leading axes broadcast; with grouped heads, only those before the head axis.
    inner = 3 if enable_gqa and rank >= 3 else 2
    leading = numpy.broadcast_shapes(*(x.shape[:-inner] for x in (q, k, v)))
    q, k, v = (numpy.broadcast_to(x, leading + x.shape[-inner:]) for x in (q, k, v))
    shape = q.shape
    mask = None if attn_mask is None else to_numpy("attn_mask", attn_mask)
    if mask is not None and mask.dtype not in (numpy.bool_, numpy.float32, q.dtype):
        raise ValueError(f"attn_mask: expected bool, float32 or {q.dtype} as of query, got {mask.dtype}")
    if mask is not None and rank > 4:
        mask = numpy.broadcast_to(mask, shape[:-1] + (k.shape[-2],))
        mask = _as_batch(mask)
    # Missing leading axes count as 1. With three axes, the first is the head axis.
    if rank < 4:
        q, k, v = (x.reshape((1,) * (4 - rank) + x.shape) for x in (q, k, v))
    elif rank > 4:
        q, k, v = map(_as_batch, (q, k, v))
    out = of_four(
        q, k, v, mask=mask, dropout=dropout_p, causal="top_left" if is_causal else None, scale=scale
    )
    return like(query, out.reshape(shape[:-1] + (v.shape[-1],)))


def _as_batch(x: Any) -> Any:
    """Joins all axes before the last three."""
    # (A size of -1 is ambiguous if another one is 0.)
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])
