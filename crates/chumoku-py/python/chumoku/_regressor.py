"""Predictors of a number for each text, with the protocol of scikit-learn."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any, Iterable

from ._inputs import check_as_many, check_rows, listed
from ._predictor import LEAST, Predictor, chunks, weighted, weights_of


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class TextRegressor(Predictor):
    """A predictor of a number for each text (a rating, a measure), trained as ``chumoku train --task score`` does it.

    >>> regressor = chumoku.TextRegressor()                                             # doctest: +SKIP
    >>> regressor.fit(["very good", "very bad", ...], [5, 1, ...])                      # doctest: +SKIP
    >>> regressor.predict_interval(["quite good"])                                      # doctest: +SKIP

    A row may be a pair of texts: a tuple of two.

    Args:
        model: ``"transformer"``, ``"rnn"``, ``"lstm"`` or ``"gru"``, each beside n-grams, or ``"ngrams"`` alone, which is trained in
            seconds.
        epochs, seed, precision, tokens, from_pretrained, freeze, lora, columns, text, folds, settings, out, resume, progress: as of
            :class:`~chumoku.TextClassifier`.

    Attributes:
        metrics_: what ``metrics.json`` holds: scores on the rows that were held out, of the whole and of its parts.
    """

    _estimator_type = "regressor"
    _tells = ("number",)

    def fit(
        self, X: Iterable[Any], y: Iterable[float], sample_weight: Any = None, *, old: tuple[Any, Any] | str | None = None
    ) -> TextRegressor:
        """Trains on texts and their numbers; a tenth of the rows is held out to choose by, and a tenth to report on.

        Args:
            X: texts, or pairs of texts, each a tuple; or, with ``columns``, a table.
            y: as many numbers.
            sample_weight: how much each row counts, as of :meth:`TextClassifier.fit() <chumoku.TextClassifier.fit>`. In ``metrics_`` all rows
                count alike, except in ``metrics_["valid"]``: the best epoch's error and loss on the validation rows (of n-grams alone,
                the loss), each of which counts by its weight.
            old: where ``from_pretrained`` is a model of your own: the rows that it was trained on, ``(texts, numbers)``, which it learns
                again so that it does not forget them; or ``"none"``, to learn from the new rows alone. ``metrics_["further"]`` then says
                what became of both.

        Raises:
            TypeError: a row is no text, or has no number.
            ValueError: there are too few rows, not as many numbers or weights as texts, a number is not finite, or a weight is
                negative.
            KeyboardInterrupt: on Ctrl-C, after what is there was saved; with ``out`` a later fit may ``resume``.
        """
        self._forget()
        table, numbers = self._rows(X), listed(y)
        texts, pairs = table.texts, table.pairs
        check_as_many(texts, numbers, "a number")
        if len(texts) < (LEAST if old is None else 1):
            raise ValueError(f"expected at least {LEAST} rows to learn from, got {len(texts)} sample{'s' * (len(texts) != 1)}")
        check_rows(texts, pairs)
        numbers = [_number(row, x) for row, x in enumerate(numbers)]
        table, numbers, weights = weighted(table, numbers, sample_weight)
        rows = self._written(table, ({"number": x} for x in numbers))
        before = self._old_rows(old, pairs, "number", listed, lambda _, y: [{"number": _number(row, x)} for row, x in enumerate(y)])
        try:
            self._train(self.model, rows, task="number", pairs=pairs, old=before, sample_weight=weights, **self._of_run())
        except BaseException:
            self._forget()
            raise
        return self

    def predict(self, X: Iterable[Any], *, abstain: float | None = None) -> Any:
        """The number of each text: float64 of shape (texts,).

        Args:
            X: texts, or pairs of texts.
            abstain: of ratings, the share of answers that shall be right, as 0.9: whose nearest level is the true one. A text of which the
                model cannot be so sure, or that is unlike all texts of training, gets NaN.

        Raises:
            TypeError: a row is no text.
            ValueError: a text is empty, the validation rows allow no such promise, or the numbers are no ratings but a measure.
        """
        if abstain is None:
            return self._told(X)[:, 0].copy()
        if not 0 < abstain < 1:
            raise ValueError(f"abstain: expected a share between 0 and 1 of answers that shall be right, got {abstain!r}")
        import numpy

        texts = self._asked(X)
        told = self._told_of(texts)[:, 0].copy()
        sure = [is_sure for part in chunks(texts) for is_sure in self._model.answered(part, abstain)]
        told[~numpy.asarray(sure, bool)] = float("nan")
        return told

    def predict_interval(self, X: Iterable[Any]) -> Any:
        """Where the number of each text lies in 90 of 100 cases: float64 of shape (texts, 2).

        Intervals are conformal: as wide as the errors on the validation rows were, which promises their share on average over texts
        like those of training.
        """
        return self._told(X)[:, 1:].copy()

    def score(self, X: Iterable[Any], y: Iterable[float], sample_weight: Any = None) -> float:
        """R², the share of the variance of the numbers that is predicted: 1 if all are right, 0 for always their mean.

        Of numbers that are all the same it is 1 if all are right, else 0; of fewer than two it is NaN. With ``sample_weight`` each
        text counts as much as its weight says.
        """
        import numpy

        truth = numpy.asarray([_number(row, x) for row, x in enumerate(listed(y))], float)
        found = self.predict(X)
        check_as_many(found, truth, "a number")  # type: ignore[arg-type]
        if len(truth) < 2:
            return float("nan")
        weights = weights_of(sample_weight, len(truth))
        off = (weights * (found - truth) ** 2).sum()
        spread = (weights * (truth - numpy.average(truth, weights=weights)) ** 2).sum()
        return float(1 - off / spread) if spread > 0 else float(not off)

    def _told(self, X: Iterable[Any]) -> Any:
        self._fitted()
        return self._told_of(self._asked(X))

    def _told_of(self, texts: list[str]) -> Any:
        import numpy

        model = self._fitted()
        told = [row for part in chunks(texts) for row in model.numbers(part)]
        return numpy.asarray(told, float).reshape(len(texts), 3)

    def _open(self, folder: pathlib.Path) -> Any:
        return self._loaded(folder)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        return tags


def _number(row: int, x: Any) -> float:
    if isinstance(x, (str, bytes)):
        raise TypeError(f"row {row}: expected a number, got {type(x).__name__} {x!r:.40}")
    try:
        number = float(x)
    except (TypeError, ValueError):
        raise TypeError(f"row {row}: expected a number, got {type(x).__name__} {x!r:.40}") from None
    if not math.isfinite(number):
        raise ValueError(f"row {row}: expected a finite number, got {number}")
    return number


__all__ = ["TextRegressor"]
