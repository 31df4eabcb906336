"""Attention in numbers: the results of ``chumoku trace``, ``check`` and ``count`` as objects."""

from __future__ import annotations

import contextlib
import html
import inspect
import json
import math
import os
import pathlib
import zlib
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

from . import _chumoku, _files
from ._estimator import Estimator
from ._inputs import check_least, check_text
from ._pages import Shown

if TYPE_CHECKING:
    from ._embedder import Embedder

# Arguments of `count` that are no numbers, and numbers that may be 0.
_NOT_NUMBERS = {"network", "bidirectional", "untied", "pre_norm", "bias"}
_MAY_BE_ZERO = {"vocabulary", "target_vocabulary", "classes"}

# Output formats by file extension.
_FORMATS = {".txt": "text", ".md": "md", ".html": "html", ".tex": "latex", ".json": "json", ".xlsx": "xlsx"}


def _source(example: Any) -> tuple[str, str]:
    """Returns how a worked example is given (by name, as a file, or as JSON) and its value."""
    if isinstance(example, Mapping):
        text = json.dumps(example, default=_plain)
        _check_finite("", json.loads(text))
        return "json", text
    if isinstance(example, str) and example in _chumoku.example_names():
        return "name", example
    if isinstance(example, (str, os.PathLike)):
        if isinstance(example, str) and not os.path.exists(example) and "." not in example and os.sep not in example:
            known = ", ".join(_chumoku.example_names())
            raise ValueError(f"no worked example and no file is called {example!r}; the examples are {known}")
        return "file", os.fspath(example)
    raise TypeError(f"expected the name of an example, a file or a dictionary, got {type(example).__name__}")


def _plain(x: Any) -> Any:
    """Converts arrays and tensors to nested lists of numbers."""
    if hasattr(x, "detach"):
        x = x.detach()
    if hasattr(x, "tolist"):
        return x.tolist()
    raise TypeError(f"a worked example holds numbers, texts and arrays, got {type(x).__name__}")


def _check_finite(place: str, x: Any) -> None:
    """Checks the numbers of a worked example: JSON has no NaN and no infinities."""
    if isinstance(x, dict):
        for name, inner in x.items():
            _check_finite(f"{place}.{name}" if place else name, inner)
    elif isinstance(x, list):
        for inner in x:
            _check_finite(place, inner)
    elif isinstance(x, float) and not math.isfinite(x):
        raise ValueError(f"{place}: expected finite numbers, got {x}")


@contextlib.contextmanager
def _folder_of(model: Any) -> Iterator[pathlib.Path]:
    """Provides the folder of a model: its path, or that of an estimator."""
    if hasattr(model, "_as_folder"):
        with model._as_folder() as folder:
            yield folder
    elif isinstance(model, (str, os.PathLike)):
        yield pathlib.Path(model)
    else:
        raise TypeError(f"model: expected a model folder or a fitted estimator, got {type(model).__name__}")


def _check_unused(function: Callable, given: dict[str, Any], reason: str) -> None:
    """Raises ValueError for an argument that would have no effect."""
    usual = inspect.signature(function).parameters
    for name, x in given.items():
        if x != usual[name].default:
            raise ValueError(f"{name}: {reason}")


def trace(
    example: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    model: str | os.PathLike[str] | Estimator | Embedder | None = None,
    text: str | tuple[str, str] | None = None,
    target: str | None = None,
    part: str = "cross",
    layer: int | None = None,
    head: int = 1,
    backward: bool = False,
) -> Trace:
    """Traces attention step by step, with every number: for a worked example, or for a model on one text.

    >>> found = chumoku.trace({"inputs": {"Q": [[1.0, 0.0]], "K": [[1.0, 0.0], [0.0, 1.0]], "V": [[2.0], [4.0]]}})
    >>> found["weights"].round(4)
    array([[0.6698, 0.3302]])

    Args:
        example: the name of a built-in example, a file, or a dictionary with the content of such a file. Its matrices
            may be arrays.
        model: a model folder, trained here or published, or a fitted estimator. ``text`` is then its input; for a pair
            model, a tuple of two texts. An example needs neither ``text``, ``target``, ``part`` nor ``layer``.
        target: for a translator, the translation; by default its own. For a classifier with ``backward``, the class
            whose loss is used; by default the predicted one.
        part: for a translator: ``"encoder"``, ``"decoder"`` or ``"cross"``.
        layer, head: the layer and head, counted from 1; the last layer by default.
        backward: continue to the loss, its gradient with respect to each matrix, and a step of AdamW.

    Raises:
        ValueError: there is no such example, layer or head, or the numbers are inconsistent or not finite. Or an
            argument has no effect.
    """
    if (example is None) == (model is None):
        raise TypeError("expected a worked example, or model=… and text=…")
    head, layer = check_least("head", head, 1), None if layer is None else check_least("layer", layer, 1)
    if model is None:
        for_models = {"text": text, "target": target, "part": part, "layer": layer}
        _check_unused(trace, for_models, "applies to a model only: leave it out for a worked example, or give model=…")
        return _trace_example(*_source(example), head, bool(backward))
    for what, given in (("text", text), ("target", target)):
        for one in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(one, str):
                check_text(what, one)
    is_pair = isinstance(text, (tuple, list)) and len(text) == 2 and all(isinstance(one, str) for one in text)
    row = _chumoku.joined(*text) if text and is_pair else text
    if not isinstance(row, (str, _chumoku.Row)):
        raise TypeError(f"text: expected the text that the model reads, or both as a tuple, got {type(text).__name__}")
    if part not in ("encoder", "decoder", "cross"):
        raise ValueError(f"part: expected one of encoder, decoder, cross, got {part!r}")
    with _folder_of(model) as folder:
        return Trace(_chumoku.Trace.of_model(folder, row, target, part, layer, head, bool(backward)))


def _trace_example(source: str, given: str, head: int, backward: bool, name: str | None = None) -> Trace:
    made = Trace(_chumoku.Trace.of_example(source, given, head, backward, name))
    if source == "file" and given != "-":
        # The file may have changed by the time it is read again.
        name, source, given = given, "json", pathlib.Path(given).read_text(encoding="utf-8-sig")
    made._example = source, given, head, backward, name
    return made


class Trace(Shown):
    """A step-by-step trace of attention. ``trace["weights"]`` is the matrix of a step, in float64, and ``trace["Q",
    2]`` is the part of head 2. ``str(trace)`` renders the steps as text, and ``text(depth="all")`` every number. For a
    trace with ``backward=True``, ``trace.gradient("W_Q")`` is the gradient of the loss with respect to a quantity.

    Attributes:
        data: the full output of ``chumoku trace --format json``.
        steps: the name of each quantity, in the order of the steps.
        gradients: the name of each quantity with a gradient, in the order of the backward steps.
        tokens, key_tokens: the tokens of the rows and columns, if they have any.
    """

    # The arguments that recreate a trace of a worked example.
    _example: tuple[str, str, int, bool, str | None] | None = None

    def __init__(self, found: Any) -> None:
        self._found = found
        self.data: dict = json.loads(found.json("en"))
        # A quantity that is shown in full and for a head is listed once.
        self.steps, self.gradients = (
            list(dict.fromkeys(step["name"] for step in self.data["steps"] if step["kind"] == kind)) for kind in ("value", "gradient")
        )
        self.tokens: list[str] = self.data["tokens"]
        self.key_tokens: list[str] = self.data["key_tokens"]

    def __reduce__(self) -> tuple:
        if self._example is not None:
            return _trace_example, self._example
        return Trace, (self._found if isinstance(self._found, _Written) else _Written.of(self._found),)

    def __copy__(self) -> Trace:
        return self

    def __deepcopy__(self, memo: Any) -> Trace:
        # The structure is shared and immutable; only the numbers are copied.
        made = Trace(self._found)
        made._example = self._example
        return made

    def __getitem__(self, name: str | tuple[str, int]) -> Any:
        return self._matrix("value", *(name if isinstance(name, tuple) else (name, None)))

    def gradient(self, name: str, head: int | None = None) -> Any:
        """The gradient of the loss with respect to a quantity, of the same shape, in float64. With ``head``, the part
        of that head.

        Raises:
            KeyError: there is no such gradient; ``gradients`` lists the available names.
        """
        return self._matrix("gradient", name, head)

    def _matrix(self, kind: str, name: str, head: int | None) -> Any:
        import numpy

        found = [step for step in self.data["steps"] if step["kind"] == kind and step["name"] == name and head in (None, step["head"])]
        # Prefers the full matrix to the part of the traced head.
        for step in sorted(found, key=lambda step: step["head"] is not None):
            # NaN and infinities are strings in JSON.
            return numpy.asarray([[float(x) for x in row] for row in step["matrix"]]).reshape(step["shape"])
        there = self.steps if kind == "value" else self.gradients
        if not there:
            raise KeyError("a trace has gradients if it is made with backward=True")
        raise KeyError(f"{name!r}{'' if head is None else f' of head {head}'}; the {kind}s are those of {', '.join(there)}")

    def __contains__(self, name: object) -> bool:
        return name in self.steps

    def __iter__(self) -> Any:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def text(self, lang: str = "en", *, depth: str = "steps", digits: int = 4, size: int = 12) -> str:
        """All steps as text. ``depth`` is ``"shapes"``, ``"steps"`` or ``"all"``; larger matrices are cut to ``size``
        rows."""
        return self._found.bytes("text", lang, depth, digits, size).decode()

    def page(self, lang: str = "en") -> str:
        """The page with every matrix, as self-contained HTML. ``"ja"`` is Japanese."""
        return self._found.bytes("html", lang, "steps", 4, 64).decode()

    def save(self, file: str | os.PathLike[str], lang: str = "en") -> None:
        """Writes the trace in the format of the file's extension: .html, .md, .tex, .txt, .json, or .xlsx with live
        formulas."""
        suffix = pathlib.Path(file).suffix
        if suffix not in _FORMATS:
            raise ValueError(f"{file}: expected a name that ends with one of {', '.join(_FORMATS)}")
        size = 64 if suffix == ".html" else 12
        _files.write(file, self._found.bytes(_FORMATS[suffix], lang, "steps", 4, size))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<chumoku.Trace {self.data['title']!r}: {', '.join(self.steps)}{' and gradients' if self.gradients else ''}>"

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{html.escape(self.data['title'])}</b></p>"]
        for step in self.data["steps"]:
            shape = " × ".join(map(str, step["shape"]))
            rows = "".join(
                "<tr>" + "".join(f"<td>{x if isinstance(x, str) else format(x, '.4g')}</td>" for x in row[:12]) + "</tr>"
                for row in step["matrix"][:12]
            )
            formula = html.escape(step["formula"] or "")
            parts.append(f"<p>{html.escape(step['title'])} <code>{formula}</code> ({shape})</p><table>{rows}</table>")
        return f"<div>{''.join(parts)}</div>"


class _Written:
    """Restores the trace of a model from another process: its numbers, and its compressed pages."""

    def __init__(self, pages: dict[tuple, bytes]) -> None:
        self._pages = pages

    @classmethod
    def of(cls, found: Any) -> _Written:
        languages = ("en", "ja")
        versions = [("text", depth, 4, 12) for depth in ("shapes", "steps", "all")] + [("html", "steps", 4, 64)]
        versions += [(format, "steps", 4, 12) for format in _FORMATS.values() if format not in ("text", "html")]
        return cls({(f, lang, *rest): zlib.compress(found.bytes(f, lang, *rest), 1) for f, *rest in versions for lang in languages})

    def json(self, lang: str) -> str:
        return self.bytes("json", lang, "steps", 4, 12).decode()

    def bytes(self, *version: Any) -> bytes:
        if version not in self._pages:
            raise ValueError(f"a pickled trace of a model has only its default pages, not with {version[2:]}: trace the model again")
        return zlib.decompress(self._pages[version])


def check(example: str | os.PathLike[str] | Mapping[str, Any]) -> Check:
    """Checks the numbers claimed by a worked example, and finds the first wrong one.

    >>> matrices = {"Q": [[1, 0]], "K": [[1, 0], [0, 1]], "V": [[2], [4]]}
    >>> found = chumoku.check({"inputs": matrices, "claims": {"weights": [["0.6682", "0.3318"]]}})
    >>> bool(found)
    False

    Args:
        example: as for :func:`trace`. Claimed numbers are strings, so that their digits count.

    Raises:
        ValueError: the value is not a worked example, or claims nothing.
    """
    return Check(*_chumoku.check(*_source(example)))


class Check:
    """The result of a check; true if every claim holds. ``str(check)`` is the report.

    Attributes:
        ok: whether every claim holds.
        steps: the result for each claim, as in ``chumoku check --json``.
        data: the full output of ``chumoku check --json``.
    """

    def __init__(self, found: str, report: str) -> None:
        self.data: dict = json.loads(found)
        self.ok: bool = self.data["ok"]
        self.steps: list[dict] = self.data["steps"]
        self._report = report

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self._report

    def __repr__(self) -> str:
        return f"<chumoku.Check: {'all true' if self.ok else 'not all true'}, {len(self.steps)} steps>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._report)}</pre>"


def count(
    network: str = "transformer",
    *,
    model: str | os.PathLike[str] | Estimator | Embedder | None = None,
    batch: int | None = None,
    length: int | None = None,
    target_length: int | None = None,
    keys: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    key_heads: int | None = None,
    head_width: int | None = None,
    feed_forward: int | None = None,
    layers: int | None = None,
    decoder_layers: int | None = None,
    vocabulary: int | None = None,
    target_vocabulary: int | None = None,
    classes: int | None = None,
    hidden: int | None = None,
    bidirectional: bool = False,
    untied: bool = False,
    pre_norm: bool = False,
    bias: bool = True,
) -> Count:
    """Counts parameters, multiply-adds, bytes and memory of every step of a network, and compares networks of the same
    sizes.

    >>> chumoku.count("attention", length=10, width=64, heads=4).parameters
    16640

    Args:
        network: ``"attention"``, ``"transformer"``, ``"decoder"``, ``"encoder-decoder"``, ``"rnn"``, ``"lstm"`` or ``"gru"``.
        model: a model folder or a fitted estimator whose sizes are used; only ``batch``, ``length`` and
            ``target_length`` can be given with it.
        batch, length, target_length: the number of sequences, and the number of tokens of each.
        keys: the number of keys; only for attention.
        width, heads, key_heads, head_width, feed_forward, layers, decoder_layers: the sizes of the network.
        vocabulary, target_vocabulary, classes: the vocabulary sizes and the number of classes.
        hidden, bidirectional: for recurrent networks.
        untied: the output layer has its own matrix instead of the embedding's.

    Raises:
        ValueError: a network of these sizes is not possible, or an argument has no effect.
    """
    sizes = {name: x for name, x in locals().items() if name != "model"}
    if not isinstance(network, str):
        raise TypeError(f"network: expected a text, got {type(network).__name__} {network!r:.40}")
    for name, x in sizes.items():
        if x is not None and name not in _NOT_NUMBERS:
            sizes[name] = check_least(name, x, 0 if name in _MAY_BE_ZERO else 1)
    if model is None:
        return Count(*_chumoku.count(sizes | {"model": None}))
    own = {name: x for name, x in sizes.items() if name not in ("batch", "length", "target_length")}
    _check_unused(count, own, "cannot be combined with model, which has its own")
    with _folder_of(model) as folder:
        return Count(*_chumoku.count(sizes | {"model": folder}))


class Count:
    """The cost of a network, step by step. ``str(count)`` has the tables.

    Attributes:
        data: the full output of ``chumoku count --json``.
        parameters, multiply_adds, bytes: the totals.
        steps: each step as a dictionary; ``pandas.DataFrame(count.steps)`` gives a table.
        side_by_side: the networks of the same sizes, as dictionaries.
    """

    def __init__(self, found: str, report: str) -> None:
        self.data: dict = json.loads(found)
        whole = self.data["count"]
        self.parameters: int = whole["parameters"]
        self.multiply_adds: int = whole["multiply_adds"]
        self.bytes: int = whole["bytes"]
        self.steps: list[dict] = whole["steps"]
        self.side_by_side: list[dict] = self.data["side_by_side"]
        self._report = report

    def __str__(self) -> str:
        return self._report

    def __repr__(self) -> str:
        return f"<chumoku.Count: {self.parameters:,} parameters, {self.multiply_adds:,} multiply-adds>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._report)}</pre>"


__all__ = ["Check", "Count", "Trace", "check", "count", "trace"]
