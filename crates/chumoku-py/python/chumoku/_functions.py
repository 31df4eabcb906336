"""The public attention functions: the part that arrays and tensors share."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Literal, Sequence

from . import _arrays, _chumoku
from ._arrays import AttentionResult, check_unmasked, is_torch
from ._inputs import check_least, whole

Causal = Literal["top_left", "bottom_right"]


def attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    causal: Causal | int | None = None,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    alibi: Sequence[float] | None = None,
    sinks: Any = None,
    mask: Any = None,
    scale: float | None = None,
    key_lengths: Sequence[int] | None = None,
    query_offsets: Sequence[int] | None = None,
    key_offsets: Sequence[int] | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    precision: Literal["highest", "high", "medium"] | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
    statistics: Sequence[str] | str = (),
) -> Any:
    """Scaled dot-product attention, ``softmax(scale · Q Kᵀ) V``, with everything that the kernels can do.

    Arguments are NumPy arrays, PyTorch tensors on the CPU, or any object with DLPack or the array interface. Results
    have the same type. Element types are float32, float64 (a slow reference implementation), bfloat16 and float16.
    PyTorch tensors have gradients. Views with any strides are read in place if the elements of each row are contiguous.
    Other layouts are copied: arrays whose width is not the last axis in memory, and arrays with negative strides.

    Args:
        query: (batch, heads, queries, width); packed sequences are (tokens, heads, width).
        key: (batch, key heads, keys, width), where the number of key heads divides the number of heads.
        value: (batch, key heads, keys, value width).
        causal: no query sees a key after its own position. ``"top_left"`` aligns the first query with the first key, as
            ``is_causal`` of PyTorch does. ``"bottom_right"`` aligns the last query with the last key, as with a cache.
            A number is the key index of the first query.
        window: (left, right): the number of keys that a query sees before and after its position; ``None`` is
            unlimited. Positions follow ``causal``, or else bottom right.
        softcap: scores s become ``softcap · tanh(s / softcap)``, as in Gemma 2.
        alibi: a slope for each head, for attention with linear biases.
        sinks: a score for each head, of an extra key whose value is 0, as in GPT-OSS.
        mask: broadcasts to (batch, heads, queries, keys). In a boolean mask, True allows attention. Numbers are added
            to the scores. The mask is never expanded in memory.
        scale: the factor on scores; 1/√width by default.
        key_lengths: the number of keys of each sequence; keys beyond it are never read.
        query_offsets, key_offsets: the offsets of packed sequences: 0, …, tokens.
        dropout: the dropout rate of the weights.
        seed: the seed of dropout; the same seed drops the same weights. By default it is drawn from the library's own
            generator.
        precision: the precision of float32 products. ``None`` follows PyTorch's setting for tensors
            (``torch.backends.fp32_precision``, ``torch.set_float32_matmul_precision``), and is ``"highest"`` for
            arrays.
        return_lse, return_weights, statistics: additional results to return. Statistics are ``"mass"``, ``"entropy"``
            and ``"top:8"`` (or another number of keys), one or several. They need no array of queries × keys.

    Returns:
        The output, (batch, heads, queries, value width). With additional results, an :class:`AttentionResult`. The
        output of a query without visible keys is 0.

    Raises:
        ValueError: shapes, lengths or values are invalid.
        TypeError: an argument is not an array or is a masked one, or its element type is not supported.
    """
    tensors = is_torch(query)
    of_library = _of("torch" if tensors else "_numpy")
    for what, x in (("key", key), ("value", value)):
        if is_torch(x) != tensors:
            raise TypeError(f"{what}: expected the same kind of array as query, got {type(x).__name__}")
    _arrays.check_scale(scale)
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout: expected a share from 0 to below 1, got {dropout}")
    statistics = (statistics,) if isinstance(statistics, str) else tuple(statistics)
    if seed is not None:
        seed = check_least("seed", seed, 0)
    check_unmasked("alibi", alibi)
    options = {
        "scale": None if scale is None else float(scale),
        "causal": causal is not None,
        "diagonal": _diagonal(causal),
        "window": _window(window),
        "softcap": None if softcap is None else float(softcap),
        "alibi": None if alibi is None else [float(slope) for slope in alibi],
        "key_lengths": _whole_numbers("key_lengths", key_lengths),
        "query_offsets": _whole_numbers("query_offsets", query_offsets),
        "key_offsets": _whole_numbers("key_offsets", key_offsets),
        "dropout": float(dropout),
    }
    if (query_offsets is None) != (key_offsets is None):
        raise ValueError("expected query_offsets and key_offsets, or neither")
    if query_offsets is not None and (return_weights or statistics):
        raise ValueError("packed sequences: weights and statistics are not available; pass the sequences one by one")
    result = of_library.attention(
        (query, key, value), mask, sinks, options, seed, precision, return_lse, return_weights, statistics
    )
    return result if return_lse or return_weights or statistics else result.output


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``torch.nn.functional.scaled_dot_product_attention`` with the same arguments and results, also for arrays.

    Args:
        query: (…, heads, queries, width)
        key: (…, key heads, keys, width)
        value: (…, key heads, keys, value width)
        attn_mask: a boolean mask, where True allows attention. Or numbers of the type of ``query`` or float32, which
            are added to the scores. Broadcasts to (…, heads, queries, keys).
        dropout_p: the dropout rate of the weights. It also applies in evaluation: pass 0 there.
        is_causal: the first query sees only the first key, the second the first two, and so on.
        scale: the factor on scores; 1/√width by default.
        enable_gqa: allow fewer key heads than heads.

    Raises:
        ValueError: both ``attn_mask`` and ``is_causal`` are given, or shapes do not fit. (PyTorch raises RuntimeError,
            and so does this for tensors.)
    """
    of_library = _of("torch" if is_torch(query) else "_numpy")
    return of_library.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _of(library: str) -> Any:
    """Returns the module for a library. (An `import` statement costs as much as the rest of a call, even if the module
    is loaded.)"""
    return sys.modules.get(f"chumoku.{library}") or importlib.import_module(f"chumoku.{library}")


def _diagonal(causal: Any) -> str | int | None:
    if causal is None or isinstance(causal, str):
        return causal
    if isinstance(causal, bool):
        raise TypeError('causal: expected "top_left", "bottom_right" or a number, got a bool: True in PyTorch is "top_left"')
    diagonal = whole(causal)
    if diagonal is None or not -1 << 63 <= diagonal < 1 << 63:
        raise ValueError(f'causal: expected "top_left", "bottom_right" or a whole number, got {causal!r:.40}')
    return diagonal


def _window(window: Any) -> tuple[int | None, ...] | None:
    if window is None:
        return None
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ValueError(f"window: expected two numbers of keys, (left, right), got {window!r:.40}")
    return tuple(None if n is None else check_least("window", n, 0) for n in window)


def _whole_numbers(what: str, numbers: Any) -> list[int] | None:
    if numbers is None:
        return None
    check_unmasked(what, numbers)
    if hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    if not hasattr(numbers, "__iter__"):
        raise TypeError(f"{what}: expected a list of whole numbers, got {numbers!r:.40}")
    return [check_least(what, n, 0) for n in numbers]


def set_num_threads(threads: int) -> None:
    """Sets the number of threads for calls, from 1 to 1024."""
    _chumoku.set_num_threads(check_least("set_num_threads", threads, 0))


__all__ = ["AttentionResult", "attention", "scaled_dot_product_attention", "set_num_threads"]
