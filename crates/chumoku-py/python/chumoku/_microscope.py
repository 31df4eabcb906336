"""Attention in numbers: what ``chumoku trace``, ``check`` and ``count`` say, as objects."""

from __future__ import annotations

import html
import json
import os
import pathlib
import zlib
from typing import Any, Mapping

from . import _chumoku, _files
from ._estimator import Estimator
from ._pages import Shown

# What the name of a file asks for.
_FORMATS = {".txt": "text", ".md": "md", ".html": "html", ".tex": "latex", ".json": "json", ".xlsx": "xlsx"}


def _source(example: Any) -> tuple[str, str]:
    """How a worked example was given: by name, as a file, or as JSON."""
    if isinstance(example, Mapping):
        return "json", json.dumps(example, default=_plain)
    if isinstance(example, str) and example in _chumoku.example_names():
        return "name", example
    if isinstance(example, (str, os.PathLike)):
        if isinstance(example, str) and not os.path.exists(example) and "." not in example and os.sep not in example:
            known = ", ".join(_chumoku.example_names())
            raise ValueError(f"no worked example and no file is called {example!r}; the examples are {known}")
        return "file", os.fspath(example)
    raise TypeError(f"expected the name of an example, a file or a dictionary, got {type(example).__name__}")


def _plain(x: Any) -> Any:
    """Arrays and tensors as lists of their numbers."""
    if hasattr(x, "detach"):
        x = x.detach()
    if hasattr(x, "tolist"):
        return x.tolist()
    raise TypeError(f"a worked example holds numbers, texts and arrays, got {type(x).__name__}")


def trace(
    example: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    model: str | os.PathLike[str] | Estimator | None = None,
    text: str | tuple[str, str] | None = None,
    target: str | None = None,
    part: str = "cross",
    layer: int | None = None,
    head: int = 1,
    backward: bool = False,
) -> Trace:
    """Attention step by step, with every number: of a worked example, or of a model while it reads a text.

    >>> found = chumoku.trace({"inputs": {"Q": [[1.0, 0.0]], "K": [[1.0, 0.0], [0.0, 1.0]], "V": [[2.0], [4.0]]}})
    >>> found["weights"].round(4)
    array([[0.6698, 0.3302]])

    Args:
        example: the name of a built-in example, a file, or a dictionary as such a file holds it; its matrices may be arrays.
        model: a model folder, trained here or published, or a fitted estimator; then ``text`` is what it reads,
            of a model of two texts both, as a tuple.
        target: of a translator, the translation that it is given; its own if absent. Of a classifier, with ``backward``, the class whose
            loss is taken; the one that it predicts if absent.
        part: of a translator: ``"encoder"``, ``"decoder"`` or ``"cross"``.
        layer, head: which, counted from 1; the last layer if absent.
        backward: whether the steps go on to the loss and its gradients with respect to each matrix, and to a step of AdamW.

    Raises:
        ValueError: there is no such example, layer or head, or the numbers do not fit together.
    """
    if (example is None) == (model is None):
        raise TypeError("expected a worked example, or model=… and text=…")
    if model is None:
        return _of_example(*_source(example), head, bool(backward))
    if isinstance(text, (tuple, list)) and len(text) == 2 and all(isinstance(one, str) for one in text):
        text = _chumoku.joined(*text)
    if not isinstance(text, str):
        raise TypeError(f"text: expected the text that the model reads, or both as a tuple, got {type(text).__name__}")
    if part not in ("encoder", "decoder", "cross"):
        raise ValueError(f"part: expected one of encoder, decoder, cross, got {part!r}")
    if isinstance(model, Estimator):
        with model._as_folder() as folder:
            return Trace(_chumoku.Trace.of_model(folder, text, target, part, layer, head, bool(backward)))
    return Trace(_chumoku.Trace.of_model(pathlib.Path(model), text, target, part, layer, head, bool(backward)))


def _of_example(source: str, given: str, head: int, backward: bool, name: str | None = None) -> Trace:
    made = Trace(_chumoku.Trace.of_example(source, given, head, backward, name))
    if source == "file" and given != "-":
        # The file may be another one when this is read again.
        name, source, given = given, "json", pathlib.Path(given).read_text(encoding="utf-8-sig")
    made._example = source, given, head, backward, name
    return made


class Trace(Shown):
    """Attention step by step. ``trace["weights"]`` is the matrix of a step, in float64, and ``trace["Q", 2]`` the part of it that
    head 2 has; ``str(trace)`` tells the steps as text, and ``text(depth="all")`` every number. Of a trace that was made backward,
    ``trace.gradient("W_Q")`` is the gradient of the loss with respect to a quantity.

    Attributes:
        data: all of it, as ``chumoku trace --format json`` writes it.
        steps: the name of each quantity, in the order of the steps.
        gradients: the name of each quantity whose gradient is shown, in the order of the steps backward.
        tokens, key_tokens: what rows and columns stand for, where they stand for something.
    """

    # What it can be made of again, if it is of a worked example.
    _example: tuple[str, str, int, bool, str | None] | None = None

    def __init__(self, found: Any) -> None:
        self._found = found
        self.data: dict = json.loads(found.json("en"))
        # What is shown whole and of a head stands there once.
        self.steps, self.gradients = (
            list(dict.fromkeys(step["name"] for step in self.data["steps"] if step["kind"] == kind)) for kind in ("value", "gradient")
        )
        self.tokens: list[str] = self.data["tokens"]
        self.key_tokens: list[str] = self.data["key_tokens"]

    def __reduce__(self) -> tuple:
        if self._example is not None:
            return _of_example, self._example
        return Trace, (self._found if isinstance(self._found, _Written) else _Written.of(self._found),)

    def __copy__(self) -> Trace:
        return self

    def __deepcopy__(self, memo: Any) -> Trace:
        # Of what is inside nothing changes; the numbers may.
        made = Trace(self._found)
        made._example = self._example
        return made

    def __getitem__(self, name: str | tuple[str, int]) -> Any:
        return self._matrix("value", *(name if isinstance(name, tuple) else (name, None)))

    def gradient(self, name: str, head: int | None = None) -> Any:
        """The gradient of the loss with respect to a quantity, of its shape, in float64; with ``head`` that head's part of it.

        Raises:
            KeyError: there is no such gradient; ``gradients`` has the names of those that are there.
        """
        return self._matrix("gradient", name, head)

    def _matrix(self, kind: str, name: str, head: int | None) -> Any:
        import numpy

        found = [step for step in self.data["steps"] if step["kind"] == kind and step["name"] == name and head in (None, step["head"])]
        # The whole, where that is there; else the part of the head that is shown.
        for step in sorted(found, key=lambda step: step["head"] is not None):
            # NaN and the infinities are texts in JSON.
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
        """All steps as text. ``depth`` is ``"shapes"``, ``"steps"`` or ``"all"``; of larger matrices ``size`` rows are shown."""
        return self._found.bytes("text", lang, depth, digits, size).decode()

    def page(self, lang: str = "en") -> str:
        """The page with every matrix, as HTML that needs nothing else; ``"ja"`` is Japanese."""
        return self._found.bytes("html", lang, "steps", 4, 64).decode()

    def save(self, file: str | os.PathLike[str], lang: str = "en") -> None:
        """Writes it in the form that the file's name ends with: .html, .md, .tex, .txt, .json, or .xlsx with live formulas."""
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
    """The trace of a model that is somewhere else: its numbers, and the pages that it had, compressed."""

    def __init__(self, pages: dict[tuple, bytes]) -> None:
        self._pages = pages

    @classmethod
    def of(cls, found: Any) -> _Written:
        languages = ("en", "ja")
        asked = [("text", depth, 4, 12) for depth in ("shapes", "steps", "all")] + [("html", "steps", 4, 64)]
        asked += [(format, "steps", 4, 12) for format in _FORMATS.values() if format not in ("text", "html")]
        return cls({(f, lang, *rest): zlib.compress(found.bytes(f, lang, *rest), 1) for f, *rest in asked for lang in languages})

    def json(self, lang: str) -> str:
        return self.bytes("json", lang, "steps", 4, 12).decode()

    def bytes(self, *asked: Any) -> bytes:
        if asked not in self._pages:
            raise ValueError(f"the trace of a model that was pickled has its pages as they usually are, not with {asked[2:]}: trace anew")
        return zlib.decompress(self._pages[asked])


def check(example: str | os.PathLike[str] | Mapping[str, Any]) -> Check:
    """Whether the numbers that a worked example claims are true, and where they first go wrong.

    >>> matrices = {"Q": [[1, 0]], "K": [[1, 0], [0, 1]], "V": [[2], [4]]}
    >>> found = chumoku.check({"inputs": matrices, "claims": {"weights": [["0.6682", "0.3318"]]}})
    >>> bool(found)
    False

    Args:
        example: as for :func:`trace`; claimed numbers are texts, so that their digits count.

    Raises:
        ValueError: it is no worked example, or claims nothing.
    """
    return Check(*_chumoku.check(*_source(example)))


class Check:
    """What of a worked example is true; true itself if all is. ``str(check)`` is the report.

    Attributes:
        ok: whether every claim holds.
        steps: what is known of each claim, as ``chumoku check --json`` writes it.
        data: all of it.
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
    model: str | os.PathLike[str] | Estimator | None = None,
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
    """Parameters, multiply-adds, bytes and memory of every step of a network, and networks of its sizes side by side.

    >>> chumoku.count("attention", length=10, width=64, heads=4).parameters
    16640

    Args:
        network: ``"attention"``, ``"transformer"``, ``"decoder"``, ``"encoder-decoder"``, ``"rnn"``, ``"lstm"`` or ``"gru"``.
        model: a model folder or a fitted estimator, whose sizes are taken.
        batch, length, target_length: sequences, and their tokens.
        keys: of attention alone, the keys.
        width, heads, key_heads, head_width, feed_forward, layers, decoder_layers: of the network.
        vocabulary, target_vocabulary, classes: tokens that are told apart, and classes.
        hidden, bidirectional: of recurrent networks.
        untied: whether the output has a matrix of its own.

    Raises:
        ValueError: there is no network of these sizes.
    """
    sizes = {name: x for name, x in locals().items() if name != "model"}
    if isinstance(model, Estimator):
        with model._as_folder() as folder:
            return Count(*_chumoku.count(sizes | {"model": folder}))
    return Count(*_chumoku.count(sizes | {"model": model}))


class Count:
    """What a network costs, step by step. ``str(count)`` has the tables.

    Attributes:
        data: all of it, as ``chumoku count --json`` writes it.
        parameters, multiply_adds, bytes: in all.
        steps: each step as a dictionary: a table of pandas is ``pandas.DataFrame(count.steps)``.
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
