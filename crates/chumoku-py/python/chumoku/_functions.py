"""The functions of the package: what is the same for arrays and tensors stands here."""

from __future__ import annotations

import importlib
import operator
import sys
from typing import Any, Literal, Sequence

from . import _arrays
from ._arrays import AttentionResult, is_torch

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
    statistics: Sequence[str] = (),
) -> Any:
    """Scaled dot-product attention, ``softmax(scale · Q Kᵀ) V``, with everything that the kernels can do.

    Arguments are arrays of NumPy, tensors of PyTorch on the CPU, or anything with DLPack or the array interface; results
    are of the same kind. Numbers are float32, float64 (computed by the plain version, slowly), bfloat16 or float16.
    Tensors of PyTorch have gradients. Views of any strides are read where they lie, if the numbers of a row are side by
    side; others are copied: those whose width is not the last axis in memory, and arrays with negative steps.

    Args:
        query: (batch, heads, queries, width); packed sequences are (tokens, heads, width).
        key: (batch, key heads, keys, width), where the number of key heads divides that of heads.
        value: (batch, key heads, keys, value width).
        causal: no query sees a key after its own place. ``"top_left"``: the first query stands at the first key, as
            ``is_causal`` of PyTorch. ``"bottom_right"``: the last query stands at the last key, as with a cache. A
            number: the key at which the first query stands.
        window: (left, right): how many keys before and after its place a query sees; ``None`` is no bound. The place is
            that of ``causal``, else bottom right.
        softcap: scores s become ``softcap · tanh(s / softcap)``, as in Gemma 2.
        alibi: a slope for each head: attention with linear biases.
        sinks: a score for each head, of a key whose value is 0, as in GPT-OSS.
        mask: broadcasts to (batch, heads, queries, keys). Booleans: True may be attended to. Numbers: added to the
            scores. It is never expanded in memory.
        scale: the factor on scores, 1/√width unless it is given.
        key_lengths: how many keys each sequence has; what lies beyond is never read.
        query_offsets, key_offsets: where packed sequences begin and the last ends: 0, …, tokens.
        dropout: the share of weights that is dropped.
        seed: of dropout; the same seed drops the same weights. Without it the library's own generator is asked.
        precision: how exact float32 products are; ``None`` follows PyTorch's setting for tensors
            (``torch.backends.fp32_precision``, ``torch.set_float32_matmul_precision``), and is ``"highest"`` for arrays.
        return_lse, return_weights, statistics: what to return beside the output. Statistics are ``"mass"``,
            ``"entropy"`` and ``"top:8"`` (or another number of keys), which need no array of queries × keys.

    Returns:
        The output, (batch, heads, queries, value width). If something else was asked for too, an
        :class:`AttentionResult`. A query with nothing to attend to gets 0.

    Raises:
        ValueError: shapes, lengths or numbers do not fit.
        TypeError: an argument is not an array, or of numbers that are not known.
    """
    tensors = is_torch(query)
    of_library = _of("torch" if tensors else "_numpy")
    for what, x in (("key", key), ("value", value)):
        if is_torch(x) != tensors:
            raise TypeError(f"{what}: expected the same kind of array as query, got {type(x).__name__}")
    _arrays.check_scale(scale)
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout: expected a share from 0 to below 1, got {dropout}")
    if isinstance(causal, bool):
        raise TypeError('causal: expected "top_left", "bottom_right" or a number, got a bool: True in PyTorch is "top_left"')
    statistics = tuple(statistics)
    options = {
        "scale": None if scale is None else float(scale),
        "causal": causal is not None,
        "diagonal": causal,
        "window": None if window is None else tuple(window),
        "softcap": None if softcap is None else float(softcap),
        "alibi": None if alibi is None else [float(slope) for slope in alibi],
        "key_lengths": _whole("key_lengths", key_lengths),
        "query_offsets": _whole("query_offsets", query_offsets),
        "key_offsets": _whole("key_offsets", key_offsets),
        "dropout": float(dropout),
    }
    if (query_offsets is None) != (key_offsets is None):
        raise ValueError("expected query_offsets and key_offsets, or neither")
    if query_offsets is not None and (return_weights or statistics):
        raise ValueError("packed sequences: weights and statistics are of sequences of one length; give them one by one")
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
    """``torch.nn.functional.scaled_dot_product_attention``: the same arguments, the same results, for arrays too.

    Args:
        query: (…, heads, queries, width)
        key: (…, key heads, keys, width)
        value: (…, key heads, keys, value width)
        attn_mask: booleans (True may be attended to), or numbers of the type of ``query`` or float32, which are added to the
            scores; broadcasts to (…, heads, queries, keys).
        dropout_p: the share of weights that is dropped, in evaluation too: pass 0 there.
        is_causal: the first query sees the first key alone, the second the first two, and so on.
        scale: the factor on scores, 1/√width unless it is given.
        enable_gqa: whether there may be fewer key heads than heads.

    Raises:
        ValueError: both ``attn_mask`` and ``is_causal`` are given, or shapes do not fit. (PyTorch raises RuntimeError,
            and so does this for tensors.)
    """
    of_library = _of("torch" if is_torch(query) else "_numpy")
    return of_library.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _of(library: str) -> Any:
    """The module for a library. (The statement `import` costs as much as all the rest of a call, also of what is there.)"""
    return sys.modules.get(f"chumoku.{library}") or importlib.import_module(f"chumoku.{library}")


def _whole(what: str, numbers: Any) -> list[int] | None:
    if numbers is None:
        return None
    if hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    found = []
    for n in numbers:
        try:
            whole = operator.index(n)
        except TypeError:
            whole = -1
        if isinstance(n, bool) or whole < 0:
            raise ValueError(f"{what}: expected whole numbers from 0 on, got {n!r}")
        found.append(whole)
    return found


__all__ = ["AttentionResult", "attention", "scaled_dot_product_attention"]
