"""Exact attention for CPUs on NumPy arrays, PyTorch tensors and any DLPack array. Also text models, and attention in
numbers.

>>> import numpy as np, chumoku
>>> query = np.ones((1, 1, 1, 1), np.float32)
>>> key = np.log(np.array([1.0, 3.0], np.float32)).reshape(1, 1, 2, 1)
>>> value = np.array([4.0, 8.0], np.float32).reshape(1, 1, 2, 1)
>>> chumoku.attention(query, key, value)  # weights 1/4 and 3/4
array([[[[7.]]]], dtype=float32)

:func:`attention` offers everything that the kernels can do. :func:`scaled_dot_product_attention` has the name and
arguments of PyTorch's function. ``chumoku.torch.activate()`` puts the kernels behind PyTorch's own function, and
``chumoku.transformers.register()`` behind ``attn_implementation="chumoku"``. ``chumoku.torch.watch(model)`` shows where
a model looks. :class:`TextClassifier`, :class:`TextRegressor`, :class:`TextTagger`, :class:`Translator` and
:class:`LanguageModel` are the models of ``chumoku train``, with scikit-learn's API. :class:`Embedder` is a pretrained
encoder, and :class:`Autoencoder` one that the command has trained. :func:`read_table` reads files as the command does, and :func:`doctor` finds problems in labeled texts.
:func:`trace`, :func:`check` and :func:`count` show attention in numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._arrays import AttentionResult, Statistics
from ._chumoku import __version__, get_num_threads, instruction_set
from ._functions import attention, scaled_dot_product_attention, set_num_threads

__all__ = [
    "Alignment",
    "AttentionResult",
    "Autoencoder",
    "Check",
    "Checkup",
    "Count",
    "Embedder",
    "Explanation",
    "LabelledTexts",
    "LanguageModel",
    "Nearest",
    "NotFittedError",
    "Span",
    "SpanExplanation",
    "Statistics",
    "TextClassifier",
    "TextRegressor",
    "TextTagger",
    "Trace",
    "Translation",
    "Translator",
    "__version__",
    "attention",
    "check",
    "count",
    "doctor",
    "get_num_threads",
    "instruction_set",
    "read_table",
    "scaled_dot_product_attention",
    "set_num_threads",
    "trace",
]

if TYPE_CHECKING:
    from ._autoencoder import Autoencoder
    from ._classifier import TextClassifier
    from ._doctor import Checkup, doctor
    from ._embedder import Embedder, Nearest
    from ._estimator import NotFittedError
    from ._language_model import LanguageModel
    from ._microscope import Check, Count, Trace, check, count, trace
    from ._pages import Alignment, Explanation
    from ._reading import LabelledTexts, read_table
    from ._regressor import TextRegressor
    from ._tagger import Span, SpanExplanation, TextTagger
    from ._translator import Translation, Translator

# Loaded on first use: names whose module imports more than attention needs, or an optional library of the same name.
_LAZY_NAMES = {
    "_autoencoder": ("Autoencoder",),
    "_classifier": ("TextClassifier",),
    "_doctor": ("Checkup", "doctor"),
    "_embedder": ("Embedder", "Nearest"),
    "_estimator": ("NotFittedError",),
    "_language_model": ("LanguageModel",),
    "_microscope": ("Check", "Count", "Trace", "check", "count", "trace"),
    "_pages": ("Alignment", "Explanation"),
    "_reading": ("LabelledTexts", "read_table"),
    "_regressor": ("TextRegressor",),
    "_tagger": ("Span", "SpanExplanation", "TextTagger"),
    "_translator": ("Translation", "Translator"),
    "torch": ("torch",),
    "transformers": ("transformers",),
}
_LAZY_MODULES = {name: module for module, names in _LAZY_NAMES.items() for name in names}


def __getattr__(name: str):
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f".{_LAZY_MODULES[name]}", __name__)
    found = module if _LAZY_MODULES[name] == name else getattr(module, name)
    globals()[name] = found
    return found


def __dir__():
    return sorted([*__all__, "torch", "transformers"])
