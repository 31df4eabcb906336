"""Translators: transformers that convert a text to another."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
from typing import Any, Callable, Iterable, Iterator

from . import _chumoku
from ._estimator import Estimator
from ._inputs import check_as_many, check_least, check_row, check_text, rows_of, texts_of
from ._pages import Alignment

# Texts per batch: enough to sort by length.
_CHUNK = 256


class Translation(str):
    """A translation, which is a string.

    Attributes:
        hypotheses: the texts of the beam with their scores, best first.
        is_cut: whether the source was truncated because it is longer than the model can read.
    """

    hypotheses: list[tuple[str, float]]
    is_cut: bool

    def __new__(cls, hypotheses: list[tuple[str, float]], is_cut: bool) -> Translation:
        made = super().__new__(cls, hypotheses[0][0])
        made.hypotheses, made.is_cut = hypotheses, is_cut
        return made

    def __reduce__(self) -> tuple:
        return Translation, (self.hypotheses, self.is_cut)


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Translator(Estimator):
    """A transformer that converts a text to another, trained on pairs as by ``chumoku train --task translate``.

    The same rows, seed and settings produce the same ``model.safetensors`` as the command. :meth:`load` also reads a
    published translator (Marian) in the format of transformers.

    >>> translator = chumoku.Translator(epochs=20)                                      # doctest: +SKIP
    >>> translator.fit(["3 March 2021", ...], ["2021-03-03", ...])                      # doctest: +SKIP
    >>> list(translator.translate(["May 5, 1999"]))                                     # doctest: +SKIP
    ['1999-05-05']

    Args:
        epochs: the maximum number of epochs; chosen from the data by default.
        seed: seed of initial weights, order and dropout.
        precision: the precision of float32 products: ``"medium"``, ``"high"`` or ``"highest"``.
        tokens: ``"subwords"`` or ``"characters"``; chosen from the data by default.
        out, resume, progress: see :class:`TextClassifier`.

    Attributes:
        metrics_: the content of ``metrics.json``: BLEU, chrF2 and exact matches on the held-out pairs.
    """

    epochs: int | None = None
    seed: int = 42
    precision: str = "medium"
    tokens: str | None = None
    out: str | os.PathLike[str] | None = None
    resume: bool = False
    progress: Callable[[dict], Any] | str | None = "auto"

    def fit(self, X: Iterable[str], y: Iterable[str]) -> Translator:
        """Trains on texts and their translations. A tenth of the pairs is used for validation, and another tenth for
        testing.

        Raises:
            TypeError: a row is not a text.
            ValueError: there are too few rows, or the number of translations differs from the number of texts.
            KeyboardInterrupt: on Ctrl-C, after saving the best model so far; with ``out`` a later fit can ``resume``.
        """
        self._forget()
        sources, targets = rows_of(X, "text"), rows_of(y, "translation")
        check_as_many(sources, targets, "a translation")
        self._train("translator", ({"source": a, "target": b} for a, b in zip(sources, targets)))
        return self

    def translate(self, texts: Iterable[str], *, beam: int = 5, length_penalty: float = 0.6) -> Iterator[Translation]:
        """Translates texts in order. It reads 256 at a time, so they may be an endless stream.

        Args:
            beam: the beam size; 1 takes the most probable token at each step.
            length_penalty: α of the length normalization (Wu et al. 2016).

        Raises:
            TypeError: a row is not a text.
            ValueError: a text is empty.
        """
        model = self._fitted()
        check_least("beam", beam, 1)
        if isinstance(texts, (str, bytes)):
            raise TypeError(f"expected several texts, got one {type(texts).__name__}: put it into a list")
        return self._translated(model, iter(texts), beam, length_penalty)

    def _translated(self, model: Any, texts: Iterator[str], beam: int, length_penalty: float) -> Iterator[Translation]:
        row = 0
        while chunk := list(itertools.islice(texts, _CHUNK)):
            for text in chunk:
                check_text(f"row {row}", text)
                check_row(row, "text", text)
                row += 1
            for hypotheses, is_cut in model.translate(chunk, beam, length_penalty):
                yield Translation(hypotheses, is_cut)

    def predict(self, X: Iterable[str]) -> list[str]:
        """The translation of each text."""
        return list(self.translate(texts_of(X)))

    def evaluate(self, X: Iterable[str], y: Iterable[str]) -> dict[str, Any]:
        """BLEU, chrF2 and exact matches, as in ``chumoku eval --json``."""
        sources, targets = texts_of(X), texts_of(y)
        check_as_many(sources, targets, "a translation")
        return json.loads(self._fitted().score(sources, targets))

    def score(self, X: Iterable[str], y: Iterable[str]) -> float:
        """chrF2 of the translations, from 0 to 100."""
        return self.evaluate(X, y)["chrf"]

    def explain(
        self,
        text: str,
        target: str | None = None,
        *,
        patch: str | None = None,
        align: str | None = None,
        lens: bool | None = None,
    ) -> Alignment:
        """Explains a translation: the given one or, without a target, the model's own.

        Args:
            text: the source.
            target: its translation.
            patch: another text. The values that the network computes for it replace those of ``text``, place by place, and
                ``patching`` says how far the first token that differs moves; ``["decoder"]`` has the places of the decoder.
            align: with ``patch``, the aligned tokens of both texts, from 1, such as ``"1-4:1-4,6:7"``. Texts with the same
                number of tokens are aligned by position.
            lens: ``True`` requires the answer after every layer, ``False`` leaves it out. By default it is there if the
                model has layers.

        Raises:
            ValueError: the sources have different numbers of tokens and no alignment, or the same translation.
        """
        for given in (text, target, patch):
            if given is not None:
                check_text("explain", given)
        return Alignment(self._fitted().explain(text, target, type(self).__name__, (patch, align, lens)))

    def _open(self, folder: pathlib.Path) -> Any:
        return _chumoku.Translator.load(folder)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


__all__ = ["Translation", "Translator"]
