"""Shared by the estimators that predict from a text: a class, labels, or a number."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import sys
import warnings
from typing import Any, Callable, ClassVar, Iterable, Iterator, Mapping, Sequence, TypeVar

from . import _chumoku, _files
from ._estimator import Estimator, computed
from ._inputs import as_list, check_as_many, check_rows, names_of, texts_or_pairs
from ._pages import Explanation
from ._tables import Rows, feature_columns, read

# Texts per batch: enough to sort by length, few enough to react to Ctrl-C. And the maximum number of their characters.
CHUNK = 4096
CHARACTERS = 1 << 20

_Text = TypeVar("_Text", str, "str | _chumoku.Row")

# The minimum number of rows for training and validation.
MIN_ROWS = 4


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Predictor(Estimator):
    """A network and an n-gram model for texts or pairs of texts."""

    model: str = "transformer"
    epochs: int | None = None
    seed: int = 42
    precision: str = "medium"
    tokens: str | None = None
    from_pretrained: str | os.PathLike[str] | None = None
    freeze: str | int | None = None
    lora: int | None = None
    columns: Sequence[str] | None = None
    text: str | tuple[str, str] | None = None
    folds: int | None = None
    settings: str | Mapping[str, Any] | None = None
    out: str | os.PathLike[str] | None = None
    resume: bool = False
    progress: Callable[[dict], Any] | str | None = "auto"

    # The prediction targets of a model of this class.
    _tells: ClassVar[tuple[str, ...]] = ()

    def explain(
        self,
        text: str | tuple[str, str] | Mapping[str, Any],
        *,
        patch: str | tuple[str, str] | Mapping[str, Any] | None = None,
        align: str | None = None,
        lens: bool | None = None,
    ) -> Explanation:
        """Explains the answer for a text (or pair of texts): the effect of each word, and the attention of every layer
        and head.

        For an n-gram model, ``data["ngrams"]`` has the effect of each n-gram; there is no attention. For a model with
        feature columns, the input is a row (a dictionary or a pandas row), and ``data["columns"]`` has the effect of
        each value.

        Args:
            text: the text, pair or row.
            patch: another text. The values that the network computes for it replace those of ``text``, place by place, and
                ``patching`` says how far the answer of the network moves.
            align: with ``patch``, the aligned tokens of both texts, from 1, such as ``"1-4:1-4,6:7"``. Texts with the same
                number of tokens are aligned by position.
            lens: ``True`` requires the answer after every layer, ``False`` leaves it out. By default it is there if the
                model has layers.

        Raises:
            TypeError: the input is not a text, or has the wrong number of texts.
            ValueError: the text is empty, or a column is missing. Or the texts of a patch have different numbers of
                tokens and no alignment, or the same answer.
        """
        other = None if patch is None else self._prepared_row(patch)
        return Explanation(self._fitted().explain(self._prepared_row(text), type(self).__name__, (other, align, lens)))

    def _prepared_row(self, text: Any) -> str | _chumoku.Row:
        """Prepares one text, pair or row for prediction."""
        model = self._fitted()
        to_dict = getattr(text, "to_dict", None)
        row = text if to_dict is None else to_dict()
        if isinstance(row, Mapping):
            return self._prepared_texts({name: [x] for name, x in row.items()})[0]
        if not isinstance(text, (str, tuple, list) if model.reads_pairs else str):
            raise TypeError(f"expected {'two texts' if model.reads_pairs else 'one text'}, got {type(text).__name__}")
        if isinstance(text, str) and not text.strip():
            raise ValueError("expected a text to explain, got an empty one")
        return self._prepared_texts([text])[0]

    def export(self, file: str | os.PathLike[str]) -> dict[str, Any]:
        """Writes the network as an ONNX file, as ``chumoku export`` does.

        Returns:
            The metadata of the file. ``"lacks_ngrams"`` says whether the model also has n-grams, which ONNX cannot
            compute from text. The file then gives the answers of the network only.
        """
        content, lacks, metadata = self._fitted().export()
        _files.write(pathlib.Path(file), content)
        return dict(metadata) | {"lacks_ngrams": lacks}

    # Methods for the subclasses.

    def _prepared_texts(self, X: Iterable[Any]) -> Sequence[str | _chumoku.Row]:
        """Prepares texts for prediction: joins pairs, and adds the values of feature columns."""
        model = self._fitted()
        reads_pairs, columns = model.reads_pairs, model.columns
        if columns or self.text is not None and names_of(X) is not None:
            given, pairs, cells = read(X, columns, self.text)
        else:
            (given, pairs), cells = texts_or_pairs(X), []
        if given and pairs != reads_pairs:
            texts_of_model, got = ("pairs of texts", "single texts") if reads_pairs else ("single texts", "pairs")
            raise TypeError(f"expected {texts_of_model}, which this model was trained on, got {got}")
        check_rows(given, pairs)
        texts = [_chumoku.joined(*pair) for pair in given] if pairs else given
        if not columns:
            return texts
        texts = [_chumoku.beside(text, row) for text, row in zip(texts, cells)]
        for what in model.unread(texts):
            _warn(what)
        return texts

    def _rows(self, X: Iterable[Any]) -> Rows:
        """Prepares rows for training."""
        columns = [name for name, _ in feature_columns(self.columns)]
        if columns or self.text is not None and names_of(X) is not None:
            return read(X, columns, self.text)
        texts, pairs = texts_or_pairs(X)
        return Rows(texts, pairs, [])

    def _written(self, rows: Rows, answers: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Converts rows to those of a file."""
        names = [name for name, _ in feature_columns(self.columns)]
        for text, cells, answer in itertools.zip_longest(rows.texts, rows.cells, answers):
            row = written(text, rows.pairs) | answer
            for name in names:
                if name in row:
                    raise ValueError(f"columns: expected a name other than {name!r}, which is reserved for the texts or the answers: rename it")
            yield row | dict(zip(names, cells or ()))

    def _old_rows(
        self, old: Any, pairs: bool, answer: str, as_list: Callable[[Any], list[Any]], checked: Callable[[Any, list[Any]], Iterable[dict[str, Any]]]
    ) -> Iterable[dict[str, Any]] | str | None:
        """Converts the old rows to those of a file; returns "none" or None unchanged. ``checked`` converts answers to
        their form in a file."""
        if old is None or isinstance(old, str) and old == "none":
            return old
        if not isinstance(old, (tuple, list)) or len(old) != 2:
            raise TypeError(f'old: expected (texts, {answer}s) or "none", got {type(old).__name__} {old!r:.40}')
        try:
            table, answers = self._rows(old[0]), as_list(old[1])
            if table.pairs != pairs:
                raise TypeError("old: expected as many texts per row as in the new rows")
            check_as_many(table.texts, answers, f"a {answer}")
            check_rows(table.texts, pairs)
            return self._written(table, checked(old[1], answers))
        except (TypeError, ValueError) as error:
            raise (TypeError if isinstance(error, TypeError) else ValueError)(f"old: {error}") from None

    def _of_run(self) -> dict[str, Any]:
        """The run parameters that the classes share."""
        settings = self.settings
        if isinstance(settings, Mapping):
            settings = ",".join(f"{name}={x}" for name, x in settings.items())
        if settings is not None and not isinstance(settings, str):
            raise TypeError(f'settings: expected a text such as "dropout=0.2,words=2" or a dictionary, got {settings!r:.40}')
        return {"columns": feature_columns(self.columns), "folds": self.folds, "settings": settings or None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = not self.columns
        tags.input_tags.two_d_array = bool(self.columns)
        return tags

    @computed
    def n_features_in_(self) -> int:
        """The number of input columns: one or two for texts, and the feature columns."""
        model = self._fitted()
        return (2 if model.reads_pairs else 1) + len(model.columns)

    def _loaded(self, folder: pathlib.Path) -> Any:
        model = _chumoku.Classifier.load(folder)
        if model.task not in self._tells:
            other = {"number": "TextRegressor"}.get(model.task, "TextClassifier")
            raise ValueError(f"{folder}: expected a model for {type(self).__name__}, got one for {other}")
        return model


def written(one: Any, pairs: bool) -> dict[str, str]:
    """Converts a text or a pair to a row of a file."""
    return {"text_1": one[0], "text_2": one[1]} if pairs else {"text": one}


def chunks(texts: Sequence[_Text], most: int = CHUNK) -> Iterator[list[_Text]]:
    """Splits texts into batches with a limit on texts and on characters. A longer text forms its own batch."""
    part: list[_Text] = []
    characters = 0
    for text in texts:
        if part and (len(part) == most or characters + len(text) > CHARACTERS):
            yield part
            part, characters = [], 0
        part.append(text)
        characters += len(text)
    if part:
        yield part


def weights_of(sample_weight: Any, rows: int) -> Any:
    """Returns the weight of each row; 1 by default."""
    import numpy

    if sample_weight is None:
        return numpy.ones(rows)
    weights = numpy.asarray(as_list(sample_weight), float)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight: expected a number for each of {rows} texts, got shape {weights.shape}")
    if not (numpy.isfinite(weights).all() and (weights >= 0).all() and (weights.sum() > 0 or not rows)):
        raise ValueError("sample_weight: expected finite numbers that are at least 0 and not all 0")
    return weights


def weighted(rows: Rows, answers: list, sample_weight: Any) -> tuple[Rows, list, list[float] | None]:
    """Returns the rows with a positive weight, their answers, and their weights, if there are any."""
    if sample_weight is None:
        return rows, answers, None
    weights = weights_of(sample_weight, len(answers)).tolist()
    kept = [row for row, weight in enumerate(weights) if weight > 0]

    def of(column: list) -> list:
        return [column[row] for row in kept]

    return Rows(of(rows.texts), rows.pairs, of(rows.cells) if rows.cells else []), of(answers), of(weights)


def mean(values: list, sample_weight: Any) -> float:
    """Returns the weighted mean of values, or NaN if there are none."""
    import numpy

    return float(numpy.average(values, weights=weights_of(sample_weight, len(values)))) if values else float("nan")


def _warn(text: str) -> None:
    """Issues a warning at the line that called this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("chumoku."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


__all__ = ["MIN_ROWS", "Predictor", "chunks", "mean", "weighted", "weights_of", "written"]
