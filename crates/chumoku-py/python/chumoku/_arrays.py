"""Converts arrays of any library for the kernels, and results back to the type of the inputs."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

FLOATING = ("float32", "float64", "bfloat16", "float16")


class Statistics(NamedTuple):
    """Statistics of attention weights, computed without an array of queries × keys. Those not requested are ``None``.
    """

    mass: Any = None
    """The weight that each key receives, summed over queries: (batch, heads, keys)."""
    entropy: Any = None
    """The entropy of each query's weights in nats: (batch, heads, queries)."""
    top_keys: Any = None
    """The keys of the largest weights, largest first: (batch, heads, queries, count); −1 where there are fewer."""
    top_weights: Any = None
    """Their weights, of the same shape."""


class AttentionResult(NamedTuple):
    """The output of :func:`chumoku.attention` and the requested extras; those not requested are ``None``."""

    output: Any
    log_sum_exp: Any = None
    """The natural logarithm of the sum of exponentials of each query's scores: (batch, heads, queries)."""
    weights: Any = None
    """The weights, before dropout: (batch, heads, queries, keys)."""
    statistics: Statistics | None = None


def is_torch(x: Any) -> bool:
    """Returns true for a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def check_unmasked(what: str, x: Any) -> None:
    """Checks that an argument is no masked array, whose mask would be lost."""
    if hasattr(x, "mask") and hasattr(x, "filled"):
        raise TypeError(f"{what}: expected an array, got a masked array, whose mask would be lost: fill it with .filled()")


def to_numpy(what: str, x: Any) -> Any:
    """Returns a NumPy array: ``x`` itself, or a view through the array interface or DLPack."""
    import numpy

    check_unmasked(what, x)
    if isinstance(x, numpy.ndarray):
        return x
    if hasattr(x, "__dlpack__"):
        return numpy.from_dlpack(x)
    if hasattr(x, "__array_interface__"):
        return numpy.asarray(x)
    raise TypeError(f"{what}: expected an array or a tensor, got {type(x).__name__}")


def like(x: Any, array: Any) -> Any:
    """Converts ``array`` to the library of ``x``."""
    import numpy

    if isinstance(x, numpy.ndarray):
        return array
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    if hasattr(x, "__array_namespace__"):
        library = x.__array_namespace__()
    from_dlpack = getattr(library, "from_dlpack", None) or getattr(getattr(library, "dlpack", None), "from_dlpack", None)
    return array if from_dlpack is None else from_dlpack(array)


def describe_array(what: str, x: Any, rows: bool = True) -> tuple[Any, tuple]:
    """Returns an array that owns the memory, and the memory's description: address, type, shape, and strides in
    elements. The caller must keep the array alive.

    With ``rows``, the elements of each row must be contiguous.
    """
    if not (x.dtype.isnative and x.flags.aligned):
        # Copies arrays of another byte order or without the alignment of their type.
        return describe_array(what, x.astype(x.dtype.newbyteorder("="), order="C", copy=True), rows)
    name, size = x.dtype.name, x.dtype.itemsize
    interface = x.__array_interface__
    strides = interface["strides"]
    if strides is None:
        strides = contiguous(x.shape, size)
    elif any(s < 0 or s % size for s in strides) or (rows and strides and strides[-1] != size and x.shape[-1] > 1):
        # Copies layouts that the kernels do not read in place: negative strides, fields of structures, rows that are
        # not contiguous.
        return describe_array(what, x.copy(), rows)
    return x, (interface["data"][0], name, x.shape, tuple(s // size for s in strides))


def contiguous(shape: tuple, size: int) -> tuple:
    """The strides of a contiguous array."""
    strides, step = [], size
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def check_scale(scale: float | None) -> None:
    if scale is not None and not math.isfinite(scale):
        raise ValueError(f"scale: expected a finite number, got {scale}")


def top_count(statistics: tuple[str, ...]) -> int:
    """Returns the number of keys that ``"top:8"`` asks for; 0 if there is no such entry."""
    found = 0
    for name in statistics:
        kind, _, count = str(name).partition(":")
        if kind == "top":
            if not count.isdecimal() or not 1 <= int(count) <= 1 << 16:
                raise ValueError(f'statistics: expected "top:" and a number of keys, got {name!r}')
            if found:
                raise ValueError(f'statistics: expected one "top:" entry, got "top:{found}" and {name!r}')
            found = int(count)
        elif name not in ("mass", "entropy"):
            raise ValueError(f'statistics: expected "mass", "entropy" or "top:8", got {name!r}')
    return found
