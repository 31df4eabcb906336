"""Explanations of answers, and the pages that show them."""

from __future__ import annotations

import html
import json
import os
from typing import Any, Iterable

from . import _chumoku, _files


class Shown:
    """Base class of results with an HTML page."""

    def page(self, lang: str = "en") -> str:
        """The page as self-contained HTML. ``"ja"`` is Japanese."""
        raise NotImplementedError

    def save(self, file: str | os.PathLike[str], lang: str = "en") -> None:
        """Writes the page to a file."""
        _files.write(file, self.page(lang).encode())

    def show(self, lang: str = "en", height: int = 900) -> None:
        """Shows the page in a notebook, in its own frame."""
        from IPython.display import HTML, display

        source = html.escape(self.page(lang), quote=True)
        style = f"width:100%;height:{height}px;border:0"
        display(HTML(f'<iframe srcdoc="{source}" sandbox="allow-scripts" style="{style}"></iframe>'))


class Explanation(Shown):
    """The explanation of a model's answer to a text, as ``chumoku explain`` computes it.

    Attributes:
        data: the full output of ``chumoku explain --json``.
        label: the name of the class; for a language model the most probable next token; for an encoder the text of the
            comparison.
        probabilities: the probability of each class, or of the most probable tokens, by name.
        similarity: for an encoder, the cosine of the two texts; else ``None``.
        words: the words of the text and the special tokens that the model adds.
        effects: for each word, the change of the label's log-odds (for an encoder, of the cosine) when the word is
            removed.
        lens: the answer after every layer (``depths``), if the model has layers; else ``None``.
        patching: how far the answer moves at each place of the network, if ``patch`` was given; else ``None``.
    """

    def __reduce__(self) -> tuple:
        return read, (self.data,)

    def __init__(self, found: Any) -> None:
        self._found = found
        self.data: dict = json.loads(found.json())
        self.label: str = self.data["label"]
        self.probabilities = {each["label"]: each["probability"] for each in self.data["probabilities"]}
        self.similarity: float | None = self.data.get("similarity")
        self.words = [word["text"] for word in self.data["words"]]
        attribution = self.data["attribution"]
        self.effects: list[float] = attribution.get("whole") or attribution["scores"]
        self.lens: dict | None = self.data.get("lens")
        self.patching: dict | None = self.data.get("patching")

    @property
    def attention(self) -> Any:
        """The attention between words: float32 of shape (layers, heads, words, words), from row to column."""
        import numpy

        return numpy.asarray(self.data["attention"], numpy.float32)

    def page(self, lang: str = "en") -> str:
        """The page with every layer and head, as self-contained HTML. ``"ja"`` is Japanese.

        Raises:
            ValueError: the model has no attention.
        """
        return self._found.html(lang)

    def _repr_html_(self) -> str:
        words = coloured((word["text"], effect) for word, effect in zip(self.data["words"], self.effects) if not word.get("special"))
        if self.similarity is not None:
            caption = f"cosine {self.similarity:.3f} to <b>{html.escape(self.label)}</b>"
        else:
            each = ", ".join(f"{html.escape(label)} {p:.1%}" for label, p in self.probabilities.items())
            caption = f"<b>{html.escape(self.label)}</b> ({each})"
        return f"<div><p>{caption}</p>{words}</div>"


class Alignment(Shown):
    """The explanation of a translation, as ``chumoku explain`` computes it.

    Attributes:
        data: the full output of ``chumoku explain --json``.
        source, target: the text and its translation.
        source_words, target_words: their words; the last of each is the end-of-text token.
        effects: for each word of the target, the decrease of its ln p when each word of the source is left out.
            ``None`` for the source's end-of-text token.
        lens: the token after every layer of the decoder (``depths``).
        patching: how far the translation moves at each place of the encoder and, under ``"decoder"``, of the decoder, if
            ``patch`` was given; else ``None``.
    """

    def __reduce__(self) -> tuple:
        return read, (self.data,)

    def __init__(self, found: Any) -> None:
        self._found = found
        self.data: dict = json.loads(found.json())
        self.source: str = self.data["source"]
        self.target: str = self.data["target"]
        self.source_words = [word["text"] for word in self.data["source_words"]]
        self.target_words = [word["text"] for word in self.data["target_words"]]
        self.effects: list[list[float | None]] = self.data["effects"]
        self.lens: dict | None = self.data.get("lens")
        self.patching: dict | None = self.data.get("patching")

    @property
    def attention(self) -> Any:
        """The cross-attention between words: float32 of shape (layers, heads, target words, source words)."""
        import numpy

        return numpy.asarray(self.data["attention"], numpy.float32)

    def page(self, lang: str = "en") -> str:
        """The page with every layer and head, as self-contained HTML. ``"ja"`` is Japanese."""
        return self._found.html(lang)

    def _repr_html_(self) -> str:
        best = self.data["ranking"][0]
        weights = self.data["attention"][best["layer"]][best["head"]]
        # Limits the table to the width of a screen; the page has all words.
        columns, rows = self.source_words[:40], self.target_words[:60]
        head = "".join(f"<th>{html.escape(word)}</th>" for word in columns)
        body = "".join(
            f"<tr><th>{html.escape(word)}</th>"
            + "".join(f'<td style="{_background(w, [1.0])}" title="{w:.3f}"></td>' for w in row[: len(columns)])
            + "</tr>"
            for word, row in zip(rows, weights)
        )
        caption = f"layer {best['layer'] + 1}, head {best['head'] + 1}"
        return f"<div><p>{html.escape(self.target)} ({caption})</p><table><tr><th></th>{head}</tr>{body}</table></div>"


def coloured(words: Iterable[tuple[str, float]]) -> str:
    """Renders words by effect: blue supports the answer, orange opposes it. The number is readable without color
    vision."""
    words = list(words)
    among = [effect for _, effect in words]
    each = (
        f'<span style="{_background(effect, among)};padding:1px 2px;border-radius:3px" title="{effect:+.2f}">{html.escape(word)}</span> '
        for word, effect in words
    )
    return f'<p style="line-height:1.8">{"".join(each)}</p>'


def _background(x: float, among: list[float]) -> str:
    largest = max((abs(other) for other in among), default=0.0) or 1.0
    colour = "37,99,235" if x > 0 else "234,88,12"
    return f"background:rgba({colour},{0.6 * abs(x) / largest:.2f})"


def read(data: dict) -> Explanation | Alignment:
    """Builds an explanation from the numbers in its JSON."""
    found = _chumoku.Page.read(json.dumps(data))
    made = Alignment(found) if "source_words" in data else Explanation(found)
    # The page does not show effects of n-grams, so it does not read them back.
    made.data |= {name: x for name, x in data.items() if name not in made.data}
    return made


__all__ = ["Alignment", "Explanation", "Shown", "coloured"]
