"""Exact attention for CPUs, for NumPy arrays, PyTorch tensors and whatever speaks DLPack; and classifiers of text.

>>> import numpy as np, chumoku
>>> query = np.ones((1, 1, 1, 1), np.float32)
>>> key = np.log(np.array([1.0, 3.0], np.float32)).reshape(1, 1, 2, 1)
>>> value = np.array([4.0, 8.0], np.float32).reshape(1, 1, 2, 1)
>>> chumoku.attention(query, key, value)  # weights 1/4 and 3/4
array([[[[7.]]]], dtype=float32)

:func:`attention` has everything that the kernels can do; :func:`scaled_dot_product_attention` is PyTorch's function of that
name, with the same arguments. ``chumoku.torch.activate()`` puts the kernels behind PyTorch's own function,
``chumoku.transformers.register()`` behind ``attn_implementation="chumoku"``. :class:`TextClassifier` is what ``chumoku train``
makes of labelled texts, with the protocol of scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._arrays import AttentionResult, Statistics
from ._chumoku import __version__, get_num_threads, instruction_set, set_num_threads
from ._functions import attention, scaled_dot_product_attention

__all__ = [
    "AttentionResult",
    "Explanation",
    "NotFittedError",
    "Statistics",
    "TextClassifier",
    "__version__",
    "attention",
    "get_num_threads",
    "instruction_set",
    "scaled_dot_product_attention",
    "set_num_threads",
]


if TYPE_CHECKING:
    from ._classifier import Explanation, NotFittedError, TextClassifier

# What imports more than attention needs, or a library of its own name: only when somebody asks.
_LATER = {name: "._classifier" for name in ("Explanation", "NotFittedError", "TextClassifier")}
_LATER |= {"torch": ".torch", "transformers": ".transformers"}


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_LATER[name], __name__)
    found = module if _LATER[name] == f".{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__():
    return sorted([*__all__, "torch", "transformers"])
