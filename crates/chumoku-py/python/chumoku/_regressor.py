"""Text regressors with scikit-learn's API."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any, Iterable, Sequence

from . import _chumoku
from ._inputs import check_as_many, check_rows
from ._labels import labels_of
from ._predictor import MIN_ROWS, Predictor, chunks, weighted, weights_of


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class TextRegressor(Predictor):
    """A regressor that predicts a number (a rating or a measure) for each text, trained as by ``chumoku train --task
    score``.

    >>> regressor = chumoku.TextRegressor()                                             # doctest: +SKIP
    >>> regressor.fit(["very good", "very bad", ...], [5, 1, ...])                      # doctest: +SKIP
    >>> regressor.predict_interval(["quite good"])                                      # doctest: +SKIP

    A row may be a pair of texts: a tuple of two.

    Args:
        model: the network that is combined with n-grams (``"transformer"``, ``"rnn"``, ``"lstm"`` or ``"gru"``), or
            ``"ngrams"`` for n-grams only, which train in seconds.
        epochs, seed, precision, tokens, from_pretrained, freeze, lora, columns, text, folds, settings, out, resume, progress: see
            :class:`~chumoku.TextClassifier`.

    Attributes:
        metrics_: the content of ``metrics.json``: scores on the held-out rows, for the model and its parts.
    """

    _estimator_type = "regressor"
    _tells = ("number",)

    def fit(
        self, X: Iterable[Any], y: Iterable[float], sample_weight: Any = None, *, old: tuple[Any, Any] | str | None = None
    ) -> TextRegressor:
        """Trains on texts and their numbers. A tenth of the rows is used for validation, and another tenth for testing.

        Args:
            X: texts, or pairs of texts as tuples. With ``columns``, a table.
            y: one number per text.
            sample_weight: the weight of each row, as in :meth:`TextClassifier.fit() <chumoku.TextClassifier.fit>`.
                Weights are ignored in ``metrics_`` except ``metrics_["valid"]``, which holds the best epoch's weighted
                error and loss on the validation rows; for n-grams only, the loss.
            old: if ``from_pretrained`` is your own model, the rows that it was trained on, as ``(texts, numbers)``.
                They are replayed so that the model does not forget them. ``"none"`` trains on the new rows only.
                ``metrics_["further"]`` then compares the model before and after.

        Raises:
            TypeError: a row is not a text, or has no number.
            ValueError: there are too few rows, the number of numbers or weights differs from the number of texts, a
                number is not finite, or a weight is negative.
            KeyboardInterrupt: on Ctrl-C, after saving the best model so far; with ``out`` a later fit can ``resume``.
        """
        self._forget()
        table, numbers = self._rows(X), labels_of(y)
        texts, pairs = table.texts, table.pairs
        check_as_many(texts, numbers, "a number")
        if len(texts) < (MIN_ROWS if old is None else 1):
            raise ValueError(f"expected at least {MIN_ROWS} rows to learn from, got {len(texts)} sample{'s' * (len(texts) != 1)}")
        check_rows(texts, pairs)
        numbers = [_number(row, x) for row, x in enumerate(numbers)]
        table, numbers, weights = weighted(table, numbers, sample_weight)
        rows = self._written(table, ({"number": x} for x in numbers))
        before = self._old_rows(old, pairs, "number", labels_of, lambda _, y: [{"number": _number(row, x)} for row, x in enumerate(y)])
        try:
            self._train(self.model, rows, task="number", pairs=pairs, old=before, sample_weight=weights, **self._of_run())
        except BaseException:
            self._forget()
            raise
        return self

    def predict(self, X: Iterable[Any], *, abstain: float | None = None) -> Any:
        """The number predicted for each text: float64 of shape (texts,).

        Args:
            X: texts, or pairs of texts.
            abstain: for ratings, the target share of right answers, such as 0.9. An answer is right if its nearest
                level is the true one. Texts below the required confidence, or unlike all training texts, get NaN.

        Raises:
            TypeError: a row is not a text.
            ValueError: a text is empty, the validation rows do not support the target, or the numbers are a measure
                rather than ratings.
        """
        if abstain is None:
            return self._estimates(X)[:, 0].copy()
        if not 0 < abstain < 1:
            raise ValueError(f"abstain: expected the target share of right answers, between 0 and 1, got {abstain!r}")
        import numpy

        texts = self._prepared_texts(X)
        numbers = self._predict_numbers(texts)[:, 0].copy()
        sure = [is_sure for part in chunks(texts) for is_sure in self._model.answered(part, abstain)]
        numbers[~numpy.asarray(sure, bool)] = float("nan")
        return numbers

    def predict_interval(self, X: Iterable[Any]) -> Any:
        """The 90 % prediction interval of each text: float64 of shape (texts, 2).

        Intervals are conformal: their width comes from the errors on the validation rows. The coverage holds on average
        over texts like the training texts.
        """
        return self._estimates(X)[:, 1:].copy()

    def score(self, X: Iterable[Any], y: Iterable[float], sample_weight: Any = None) -> float:
        """R², the share of the numbers' variance that is explained: 1 for perfect predictions, 0 for always predicting
        the mean.

        For constant numbers it is 1 if all predictions are right, else 0; for fewer than two it is NaN. With
        ``sample_weight``, each text counts by its weight.
        """
        import numpy

        truth = numpy.asarray([_number(row, x) for row, x in enumerate(labels_of(y))], float)
        found = self.predict(X)
        check_as_many(found, truth, "a number")  # type: ignore[arg-type]
        if len(truth) < 2:
            return float("nan")
        weights = weights_of(sample_weight, len(truth))
        off = (weights * (found - truth) ** 2).sum()
        spread = (weights * (truth - numpy.average(truth, weights=weights)) ** 2).sum()
        return float(1 - off / spread) if spread > 0 else float(not off)

    def _estimates(self, X: Iterable[Any]) -> Any:
        self._fitted()
        return self._predict_numbers(self._prepared_texts(X))

    def _predict_numbers(self, texts: Sequence[str | _chumoku.Row]) -> Any:
        import numpy

        model = self._fitted()
        rows = [row for part in chunks(texts) for row in model.numbers(part)]
        return numpy.asarray(rows, float).reshape(len(texts), 3)

    def _open(self, folder: pathlib.Path) -> Any:
        return self._loaded(folder)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        return tags


def _number(row: int, x: Any) -> float:
    # (A time of NumPy converts to its number of nanoseconds.)
    if isinstance(x, (str, bytes)) or type(x).__name__ in ("datetime64", "timedelta64"):
        raise TypeError(f"row {row}: expected a number, got {type(x).__name__} {x!r:.40}")
    try:
        number = float(x)
    except (TypeError, ValueError):
        raise TypeError(f"row {row}: expected a number, got {type(x).__name__} {x!r:.40}") from None
    except OverflowError:
        raise ValueError(f"row {row}: expected a finite number, got one beyond the range of float64") from None
    if not math.isfinite(number):
        raise ValueError(f"row {row}: expected a finite number, got {number}")
    return number


__all__ = ["TextRegressor"]
