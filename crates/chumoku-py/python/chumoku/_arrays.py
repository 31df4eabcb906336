"""Arrays of any library as what the kernels read, and results as what came in."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

FLOATING = ("float32", "float64", "bfloat16", "float16")


class Statistics(NamedTuple):
    """What can be said of attention weights without an array of queries × keys; ``None`` where it was not asked for."""

    mass: Any = None
    """The weight that each key receives, summed over queries: (batch, heads, keys)."""
    entropy: Any = None
    """The entropy of each query's weights in nats: (batch, heads, queries)."""
    top_keys: Any = None
    """The keys of the largest weights, largest first: (batch, heads, queries, count); −1 where there are fewer."""
    top_weights: Any = None
    """Their weights, of the same shape."""


class AttentionResult(NamedTuple):
    """The output of :func:`chumoku.attention` and what was asked for beside it; ``None`` where it was not."""

    output: Any
    log_sum_exp: Any = None
    """The natural logarithm of the sum of exponentials of each query's scores: (batch, heads, queries)."""
    weights: Any = None
    """The weights, before dropout: (batch, heads, queries, keys)."""
    statistics: Statistics | None = None


def is_torch(x: Any) -> bool:
    """Whether this is a tensor of PyTorch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def to_numpy(what: str, x: Any) -> Any:
    """An array of NumPy: itself, or a view of what speaks the array interface or DLPack."""
    import numpy

    if isinstance(x, numpy.ndarray):
        return x
    if hasattr(x, "__dlpack__"):
        return numpy.from_dlpack(x)
    if hasattr(x, "__array_interface__"):
        return numpy.asarray(x)
    raise TypeError(f"{what}: expected an array or a tensor, got {type(x).__name__}")


def like(x: Any, array: Any) -> Any:
    """``array`` as the kind of thing that ``x`` is."""
    import numpy

    if isinstance(x, numpy.ndarray):
        return array
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    if hasattr(x, "__array_namespace__"):
        library = x.__array_namespace__()
    from_dlpack = getattr(library, "from_dlpack", None) or getattr(getattr(library, "dlpack", None), "from_dlpack", None)
    return array if from_dlpack is None else from_dlpack(array)


def described(what: str, x: Any, rows: bool = True) -> tuple[Any, tuple]:
    """The array whose memory is read, which must be kept, and the memory: address, type, shape, strides in numbers.

    With ``rows`` the numbers of a row must lie side by side.
    """
    if not (x.dtype.isnative and x.flags.aligned):
        # Numbers in another order of bytes, or across the places where a processor reads them.
        return described(what, x.astype(x.dtype.newbyteorder("="), order="C", copy=True), rows)
    name, size = x.dtype.name, x.dtype.itemsize
    interface = x.__array_interface__
    strides = interface["strides"]
    if strides is None:
        strides = contiguous(x.shape, size)
    elif any(s < 0 or s % size for s in strides) or (rows and strides and strides[-1] != size and x.shape[-1] > 1):
        # Nothing that the kernels read in place: negative steps, parts of structures, rows that are not side by side.
        return described(what, x.copy(), rows)
    return x, (interface["data"][0], name, x.shape, tuple(s // size for s in strides))


def contiguous(shape: tuple, size: int) -> tuple:
    """The strides of an array whose numbers lie one after another."""
    strides, step = [], size
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def check_scale(scale: float | None) -> None:
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale: expected a finite number, got {scale}")


def top_count(statistics: tuple[str, ...]) -> int:
    """How many keys ``"top:8"`` asks for; 0 if nothing does."""
    for name in statistics:
        kind, _, count = name.partition(":")
        if kind == "top":
            if not count.isdecimal() or not 1 <= int(count) <= 1 << 16:
                raise ValueError(f'statistics: expected "top:" and a number of keys, got {name!r}')
            return int(count)
        if name not in ("mass", "entropy"):
            raise ValueError(f'statistics: expected "mass", "entropy" or "top:8", got {name!r}')
    return 0
