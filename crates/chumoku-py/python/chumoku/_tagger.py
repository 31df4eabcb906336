"""Taggers: labeled spans in texts, such as names and their kinds."""

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
from ._inputs import as_list, check_as_many, check_row, check_text, is_none, rows_of
from ._pages import Shown, coloured
from ._predictor import MIN_ROWS, chunks


class Span(NamedTuple):
    """A labeled span of a text."""

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


# Limits on the spans, and on the words of each text, in a notebook; the page shows more.
_MOST_SPANS, _MOST_WORDS = 40, 400


class SpanExplanation(Shown):
    """The explanation of a tagger's spans in a text, as ``chumoku explain`` computes it.

    Attributes:
        data: the full output of ``chumoku explain --json``. For each span it also has the features of the random field
            that support its labels, and the answer of each ensemble member.
        text: the text.
        spans: the predicted spans, or the requested one.
        words: the words of the text; empty if there is no span.
        effects: for each span and word, the change of the span's log-odds when the word is hidden.
        lens: for a tagger with an encoder, the tag of each word after every layer; else ``None``.
        patching: how far a word's tag moves at each place of the encoder, if ``patch`` was given; else ``None``.
    """

    def __init__(self, found: Any) -> None:
        self._found = found
        self._set_data(json.loads(found.json()))

    def _set_data(self, data: dict) -> None:
        self.data = data
        self.text: str = data["text"]
        self.lens: dict | None = data.get("lens")
        self.patching: dict | None = data.get("patching")
        self.spans = [Span(*(span[name] for name in Span._fields)) for span in data["spans"]]
        # The separator between the texts of a pair is not a word.
        marked = [[word for word in span["words"] if word["effect"] is not None] for span in data["spans"]]
        self.words: list[str] = [word["text"] for word in marked[0]] if marked else []
        self.effects: list[list[float]] = [[word["effect"] for word in words] for words in marked]

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "pages": {lang: self.page(lang) for lang in ("en", "ja")}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._found = _Pages(state["pages"])
        self._set_data(state["data"])

    def page(self, lang: str = "en") -> str:
        """The page as self-contained HTML: each span with its words and features. If the tagger has an encoder, the
        page also shows the encoder's attention in every layer and head. ``"ja"`` is Japanese."""
        return self._found.html(lang)

    def _repr_html_(self) -> str:
        parts = []
        for span, effects in list(zip(self.spans, self.effects))[:_MOST_SPANS]:
            caption = f"<b>{html.escape(span.text)}</b> {html.escape(span.label)} {span.probability:.1%}"
            parts.append(f"<p>{caption}</p>{coloured(zip(self.words[:_MOST_WORDS], effects))}")
        if len(self.spans) > _MOST_SPANS:
            parts.append(f"<p>and {len(self.spans) - _MOST_SPANS} more spans</p>")
        return f"<div>{''.join(parts) or f'<p>no spans: {html.escape(self.text[:200])}</p>'}</div>"


class _Pages(NamedTuple):
    """Pages rendered before pickling."""

    of_languages: dict[str, str]

    def html(self, lang: str) -> str:
        if lang not in self.of_languages:
            raise ValueError(f'lang: expected "en" or "ja", got {lang!r}')
        return self.of_languages[lang]


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class TextTagger(Estimator):
    """Finds labeled spans in texts with a conditional random field, trained as by ``chumoku train --task tag``.

    >>> tagger = chumoku.TextTagger()                                                   # doctest: +SKIP
    >>> tagger.fit(["Anna lives in London.", ...], [[(0, 4, "person"), (14, 20, "place")], ...])  # doctest: +SKIP
    >>> tagger.predict(["Ben works in Oslo."])                                          # doctest: +SKIP

    Args:
        epochs: the maximum number of epochs; chosen on validation rows by default.
        seed: seed of the order of rows.
        from_pretrained: the folder of a pretrained encoder in the format of transformers, to combine with the random
            field. Or the folder of your own tagger, which ``fit(X, y, old=…)`` trains further.
        freeze, lora, precision: with ``from_pretrained``, see :class:`~chumoku.TextClassifier`.
        out: the model folder to write; by default a temporary folder whose files are kept in memory.
        resume: with ``from_pretrained``, continue from the newest checkpoint in ``out``.
        progress: see :class:`~chumoku.TextClassifier`.

    Attributes:
        classes_: the span labels, sorted.
        metrics_: the content of ``metrics.json``: scores on the held-out rows.
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
        """Trains on texts and their spans. A tenth of the rows is used for validation, and another tenth for testing.

        Args:
            X: texts.
            y: the list of spans of each text. A span is ``(start, end, label)`` in characters, or a dictionary with
                these keys. Spans of a text do not overlap; a text without spans has an empty list.
            old: if ``from_pretrained`` is your own tagger, the rows that it was trained on, as ``(texts, spans)``. They
                are replayed so that the model does not forget them. ``"none"`` trains on the new rows only.
                ``metrics_["further"]`` then compares the model before and after.

        Raises:
            TypeError: a row is not a text, or a span has an unsupported form.
            ValueError: there are too few rows, a span lies outside its text or overlaps another, or there are no spans
                at all.
        """
        self._forget()
        rows = _written(X, y)
        if len(rows) < (MIN_ROWS if old is None else 1):
            raise ValueError(f"expected at least {MIN_ROWS} rows to learn from, got {len(rows)} sample{'s' * (len(rows) != 1)}")
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
        """The spans of each text, in order of position; they do not overlap.

        Raises:
            TypeError: a row is not a text.
            ValueError: a text is empty.
        """
        model = self._fitted()
        return [[Span(*span) for span in row] for part in chunks(rows_of(X, "text")) for row in model.predict(part)]

    def explain(
        self,
        text: str,
        span: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        patch: str | None = None,
        align: str | None = None,
        lens: bool | None = None,
    ) -> SpanExplanation:
        """Explains each span of a text: the effect of each word, and the features that support its labels.

        Args:
            text: one text.
            span: ``(start, end)`` or ``(start, end, label)``, a :class:`Span`, or a dictionary with these keys. Only
                this span is explained, even if the tagger does not predict it. Without a label, the most probable one
                is used.
            patch: another text. The values that the network computes for it replace those of ``text``, place by place, and
                ``patching`` says how far the tag of ``span``'s first word moves, or without a span that of the first
                word that gets another tag. Only for taggers with an encoder.
            align: with ``patch``, the aligned tokens of both texts, from 1, such as ``"1-4:1-4,6:7"``. Texts with the same
                number of tokens are aligned by position.
            lens: ``True`` requires the answer after every layer, ``False`` leaves it out. By default it is there if the
                model has layers.

        Raises:
            ValueError: there is no such span, or it does not start and end at word boundaries. Or the texts of a patch
                have different numbers of tokens and no alignment, or equal tags.
        """
        model = self._fitted()
        if not isinstance(text, str):
            raise TypeError(f"expected one text, got {type(text).__name__}")
        for given in (text,) if patch is None else (text, patch):
            check_text("explain", given)
        requested = None if span is None else _requested_span(span, len(text))
        return SpanExplanation(model.explain(text, requested, type(self).__name__, (patch, align, lens)))

    def score(self, X: Iterable[str], y: Iterable[Any]) -> float:
        """F1 over all spans, as seqeval computes it: a span counts if its boundaries and its label are right.

        Raises:
            TypeError: a row is not a text, or a span has an unsupported form.
            ValueError: a text is empty, or a span lies outside its text or overlaps another.
        """
        self._fitted()
        rows = _written(X, y)
        found = self.predict([row["text"] for row in rows])
        return _chumoku.span_f1([row["spans"] for row in rows], [[span[:3] for span in row] for row in found])

    def _open(self, folder: pathlib.Path) -> Any:
        model = _chumoku.Tagger.load(folder)
        self.classes_ = sorted(model.labels)
        return model

    def _summary(self) -> list[tuple[str, str]]:
        return [("spans", ", ".join(self.classes_[:8]) + ("…" if len(self.classes_) > 8 else "")), *super()._summary()]


def _written(X: Iterable[str], y: Iterable[Any]) -> list[dict[str, Any]]:
    """Converts texts and their spans to rows of a file."""
    texts, spans = rows_of(X, "text"), as_list(y)
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


def _requested_span(span: Any, characters: int) -> tuple[int, int, str | None]:
    """Checks the requested span against the length of the text."""
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
