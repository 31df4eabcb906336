"""Taggers of words: what a text names, and which kind of word each is."""

from __future__ import annotations

import dataclasses
import html
import json
import operator
import os
import pathlib
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from . import _chumoku
from ._estimator import Estimator
from ._inputs import check_as_many, check_row, is_none, listed, rows_of
from ._pages import Shown, coloured
from ._predictor import LEAST, chunks


class Span(NamedTuple):
    """A labelled part of a text."""

    start: int
    """Its first character, from 0."""
    end: int
    """The character behind its last."""
    label: str
    """What it is."""
    text: str
    """Its characters."""
    probability: float
    """The probability that just this is a span of this kind."""


# Spans that a notebook shows, and words of a text in each; the page has more.
_MOST_SPANS, _MOST_WORDS = 40, 400


class SpanExplanation(Shown):
    """Why a tagger marks the spans of a text, as ``chumoku explain`` finds it.

    Attributes:
        data: all of it, as ``chumoku explain --json`` writes it: of each span also the features of the random field that spoke for its
            labels, and what each half says by itself.
        text: the text.
        spans: the spans that are marked, or the one that was asked for.
        words: the words of the text; none where there is no span.
        effects: for each span, what each word does: the change of the span's log-odds when the word is hidden.
    """

    def __init__(self, found: Any) -> None:
        self._found = found
        self._told(json.loads(found.json()))

    def _told(self, data: dict) -> None:
        self.data = data
        self.text: str = data["text"]
        self.spans = [Span(*(span[name] for name in Span._fields)) for span in data["spans"]]
        # A sign between the texts of a pair is no word.
        marked = [[word for word in span["words"] if word["effect"] is not None] for span in data["spans"]]
        self.words: list[str] = [word["text"] for word in marked[0]] if marked else []
        self.effects: list[list[float]] = [[word["effect"] for word in words] for words in marked]

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "pages": {lang: self.page(lang) for lang in ("en", "ja")}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._found = _Pages(state["pages"])
        self._told(state["data"])

    def page(self, lang: str = "en") -> str:
        """The page, as HTML that needs nothing else: each span with its words and features and, where an encoder stands beside the
        random field, the encoder's attention in every layer and head. ``"ja"`` is Japanese."""
        return self._found.html(lang)

    def _repr_html_(self) -> str:
        parts = []
        for span, effects in list(zip(self.spans, self.effects))[:_MOST_SPANS]:
            said = f"<b>{html.escape(span.text)}</b> {html.escape(span.label)} {span.probability:.1%}"
            parts.append(f"<p>{said}</p>{coloured(zip(self.words[:_MOST_WORDS], effects))}")
        if len(self.spans) > _MOST_SPANS:
            parts.append(f"<p>and {len(self.spans) - _MOST_SPANS} more spans</p>")
        return f"<div>{''.join(parts) or f'<p>no spans: {html.escape(self.text[:200])}</p>'}</div>"


class _Pages(NamedTuple):
    """Pages as they were when they were pickled."""

    of_languages: dict[str, str]

    def html(self, lang: str) -> str:
        if lang not in self.of_languages:
            raise ValueError(f'lang: expected "en" or "ja", got {lang!r}')
        return self.of_languages[lang]


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class TextTagger(Estimator):
    """Finds labelled spans in texts by a conditional random field, trained as ``chumoku train --task tag`` does it.

    >>> tagger = chumoku.TextTagger()                                                   # doctest: +SKIP
    >>> tagger.fit(["Anna lives in London.", ...], [[(0, 4, "person"), (14, 20, "place")], ...])  # doctest: +SKIP
    >>> tagger.predict(["Ben works in Oslo."])                                          # doctest: +SKIP

    Args:
        epochs: passes at most; chosen on validation rows if absent.
        seed: decides the order of rows.
        from_pretrained: the folder of a pretrained encoder, as transformers writes it, which then stands beside the random field; or that
            of a tagger of your own, which ``fit(X, y, old=…)`` then trains further.
        freeze, lora, precision: with ``from_pretrained``, as of :class:`~chumoku.TextClassifier`.
        out: the model folder to write; a temporary one, held in memory, if absent.
        resume: with ``from_pretrained``, continue from the newest checkpoint in ``out``.
        progress: as of :class:`~chumoku.TextClassifier`.

    Attributes:
        classes_: the kinds of spans, sorted.
        metrics_: what ``metrics.json`` holds: scores on the rows that were held out.
    """

    epochs: int | None = None
    seed: int = 42
    precision: str = "medium"
    from_pretrained: str | os.PathLike[str] | None = None
    freeze: str | int | None = None
    lora: int | None = None
    out: str | os.PathLike[str] | None = None
    resume: bool = False
    progress: Callable[[dict], Any] | str | None = "auto"

    def fit(self, X: Iterable[str], y: Iterable[Any], *, old: tuple[Any, Any] | str | None = None) -> TextTagger:
        """Trains on texts and their spans; a tenth of the rows is held out to choose by, and a tenth to report on.

        Args:
            X: texts.
            y: for each text the list of its spans, each ``(start, end, label)`` in characters, or a dictionary with these keys. Spans of a
                text do not overlap; a text without any has an empty list.
            old: where ``from_pretrained`` is a tagger of your own: the rows that it was trained on, ``(texts, spans)``, which it
                learns again so that it does not forget them; or ``"none"``, to learn from the new rows alone.
                ``metrics_["further"]`` then says what became of both.

        Raises:
            TypeError: a row is no text, or its spans are none.
            ValueError: there are too few rows, a span lies outside of its text or overlaps another, or there is none at all.
        """
        self._forget()
        rows = _written(X, y)
        if len(rows) < (LEAST if old is None else 1):
            raise ValueError(f"expected at least {LEAST} rows to learn from, got {len(rows)} sample{'s' * (len(rows) != 1)}")
        before: Any = old
        if old is not None and not (isinstance(old, str) and old == "none"):
            if not isinstance(old, (tuple, list)) or len(old) != 2:
                raise TypeError(f'old: expected (texts, spans) or "none", got {type(old).__name__} {old!r:.40}')
            try:
                before = _written(*old)
            except (TypeError, ValueError) as error:
                raise (TypeError if isinstance(error, TypeError) else ValueError)(f"old: {error}") from None
        try:
            self._train("tagger", rows, old=before)
        except BaseException:
            self._forget()
            raise
        return self

    def predict(self, X: Iterable[str]) -> list[list[Span]]:
        """The spans of each text, in their order; they do not overlap.

        Raises:
            TypeError: a row is no text.
            ValueError: a text is empty.
        """
        model = self._fitted()
        return [[Span(*span) for span in row] for part in chunks(rows_of(X, "text")) for row in model.predict(part)]

    def explain(self, text: str, span: Sequence[Any] | Mapping[str, Any] | None = None) -> SpanExplanation:
        """Why each span of this text is marked: what each word does to it, and the features that speak for its labels.

        Args:
            text: one text.
            span: ``(start, end)`` or ``(start, end, label)``, a :class:`Span`, or a dictionary with these keys: this one alone is explained,
                whether it is marked or not. Without a label it is of its most probable kind.

        Raises:
            ValueError: there is no such span, or it does not begin and end where words do.
        """
        model = self._fitted()
        if not isinstance(text, str):
            raise TypeError(f"expected one text, got {type(text).__name__}")
        asked = None if span is None else _asked(span, len(text))
        return SpanExplanation(model.explain(text, asked, type(self).__name__))

    def score(self, X: Iterable[str], y: Iterable[Any]) -> float:
        """F1 over all spans, as seqeval computes it: a span counts if its borders and its label are right."""
        spans = listed(y)
        found = self.predict(X)
        check_as_many(found, spans, "a list of spans")
        truth = [_spans(row, given) for row, given in enumerate(spans)]
        return _chumoku.span_f1(truth, [[span[:3] for span in row] for row in found])

    def _open(self, folder: pathlib.Path) -> Any:
        model = _chumoku.Tagger.load(folder)
        self.classes_ = sorted(model.labels)
        return model

    def _facts(self) -> list[tuple[str, str]]:
        return [("spans", ", ".join(self.classes_[:8]) + ("…" if len(self.classes_) > 8 else "")), *super()._facts()]


def _written(X: Iterable[str], y: Iterable[Any]) -> list[dict[str, Any]]:
    """Texts and their spans as rows of a file."""
    texts, spans = rows_of(X, "text"), listed(y)
    check_as_many(texts, spans, "a list of spans")
    rows = []
    for row, (text, given) in enumerate(zip(texts, spans)):
        found = sorted(_spans(row, given))
        for start, end, label in found:
            check_row(row, "label", label)
            if not 0 <= start < end <= len(text):
                raise ValueError(f"row {row}: expected a span within the {len(text)} characters of its text, got {start} to {end}")
        for one, other in zip(found, found[1:]):
            if other[0] < one[1]:
                raise ValueError(f"row {row}: spans {one} and {other} overlap")
        rows.append({"text": text, "spans": found})
    return rows


def _spans(row: int, given: Any) -> list[tuple[int, int, str]]:
    """The spans of a row."""
    if isinstance(given, (str, bytes, dict)) or not hasattr(given, "__iter__"):
        raise TypeError(f"row {row}: expected a list of spans, got {type(given).__name__} {given!r:.40}")
    found = []
    for span in given:
        try:
            start, end, label = (span[key] for key in ("start", "end", "label")) if isinstance(span, dict) else span[:3]
            if is_none(label):
                raise TypeError("no label")
            found.append((operator.index(start), operator.index(end), str(label).strip()))
        except (KeyError, TypeError, ValueError):
            raise TypeError(f"row {row}: expected spans (start, end, label), got {span!r:.60}") from None
    return found


def _asked(span: Any, characters: int) -> tuple[int, int, str | None]:
    """The span of a text with so many characters that is to be explained."""
    try:
        if isinstance(span, str):
            raise TypeError("a text")
        start, end, label = (span["start"], span["end"], span.get("label")) if isinstance(span, Mapping) else [*span, None][:3]
        start, end = operator.index(start), operator.index(end)
    except (KeyError, TypeError, ValueError):
        raise TypeError(f"span: expected (start, end) or (start, end, label), got {span!r:.60}") from None
    if not 0 <= start < end <= characters:
        raise ValueError(f"span: expected one within the {characters} characters of the text, got {start} to {end}")
    return start, end, None if label is None else str(label).strip()


__all__ = ["Span", "SpanExplanation", "TextTagger"]
