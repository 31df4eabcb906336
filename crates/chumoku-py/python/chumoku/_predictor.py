"""What the estimators share that tell something of a text: a class, labels, or a number."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import sys
import warnings
from typing import Any, Callable, ClassVar, Iterable, Iterator, Mapping, Sequence

from . import _chumoku, _files
from ._estimator import Estimator, computed
from ._inputs import check_as_many, check_rows, listed, names_of, texts_or_pairs
from ._pages import Explanation
from ._tables import Rows, asked, read

# Texts that are read at a time: enough to be sorted by length, few enough for Ctrl-C to be heard. And their characters.
CHUNK = 4096
CHARACTERS = 1 << 20

# Fewer rows cannot be learnt from and chosen by.
LEAST = 4


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Predictor(Estimator):
    """A network and an n-gram model that read texts, or pairs of texts."""

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

    # What a model of this class tells.
    _tells: ClassVar[tuple[str, ...]] = ()

    def explain(self, text: str | tuple[str, str] | Mapping[str, Any]) -> Explanation:
        """Why this text (or pair of texts) gets its answer: the effect of each word, and the attention of every layer and head.

        Of an n-gram model ``data["ngrams"]`` has the effect of each n-gram; there is no attention. Where columns stand beside the text,
        it is a row, a dictionary or a row of pandas, and ``data["columns"]`` has the effect of each value.

        Raises:
            TypeError: it is no text, or not as many texts as the model reads.
            ValueError: the text is empty, or a column is missing.
        """
        model = self._fitted()
        to_dict = getattr(text, "to_dict", None)
        row = text if to_dict is None else to_dict()
        if isinstance(row, Mapping):
            return Explanation(model.explain(self._asked({name: [x] for name, x in row.items()})[0], type(self).__name__))
        if not isinstance(text, (str, tuple, list) if model.reads_pairs else str):
            raise TypeError(f"expected {'two texts' if model.reads_pairs else 'one text'}, got {type(text).__name__}")
        if isinstance(text, str) and not text.strip():
            raise ValueError("expected a text to explain, got an empty one")
        return Explanation(model.explain(self._asked([text])[0], type(self).__name__))

    def export(self, file: str | os.PathLike[str]) -> dict[str, Any]:
        """Writes the network as an ONNX file, as ``chumoku export`` does.

        Returns:
            what is to be known of it: its metadata, and under ``"lacks_ngrams"`` whether n-grams stand beside the network, which ONNX
            cannot compute from text. The file then answers as the network alone does.
        """
        content, lacks, metadata = self._fitted().export()
        _files.write(pathlib.Path(file), content)
        return dict(metadata) | {"lacks_ngrams": lacks}

    # What follows is for the classes themselves.

    def _asked(self, X: Iterable[Any]) -> list[str]:
        """Texts to be answered of, each pair as one text, with the values beside them."""
        model = self._fitted()
        reads_pairs, columns = model.reads_pairs, model.columns
        if columns or self.text is not None and names_of(X) is not None:
            given, pairs, cells = read(X, columns, self.text)
        else:
            (given, pairs), cells = texts_or_pairs(X), []
        if given and pairs != reads_pairs:
            wanted, got = ("pairs of texts", "single texts") if reads_pairs else ("single texts", "pairs")
            raise TypeError(f"expected {wanted}, which this model was trained on, got {got}")
        check_rows(given, pairs)
        texts = [_chumoku.joined(*pair) for pair in given] if pairs else given
        if not columns:
            return texts
        texts = [_chumoku.beside(text, row) for text, row in zip(texts, cells)]
        for what in model.unread(texts):
            _warn(what)
        return texts

    def _rows(self, X: Iterable[Any]) -> Rows:
        """Rows to learn from."""
        columns = [name for name, _ in asked(self.columns)]
        if columns or self.text is not None and names_of(X) is not None:
            return read(X, columns, self.text)
        texts, pairs = texts_or_pairs(X)
        return Rows(texts, pairs, [])

    def _written(self, rows: Rows, answers: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows as those of a file."""
        names = [name for name, _ in asked(self.columns)]
        for text, cells, answer in itertools.zip_longest(rows.texts, rows.cells, answers):
            row = written(text, rows.pairs) | answer
            for name in names:
                if name in row:
                    raise ValueError(f"columns: expected a name other than {name!r}, which the texts or the answers have in files: rename it")
            yield row | dict(zip(names, cells or ()))

    def _old_rows(
        self, old: Any, pairs: bool, answer: str, listed: Callable[[Any], list[Any]], checked: Callable[[Any, list[Any]], Iterable[dict[str, Any]]]
    ) -> Iterable[dict[str, Any]] | str | None:
        """The old rows as those of a file; or "none", or nothing. ``checked`` makes of answers what a file has of them."""
        if old is None or isinstance(old, str) and old == "none":
            return old
        if not isinstance(old, (tuple, list)) or len(old) != 2:
            raise TypeError(f'old: expected (texts, {answer}s) or "none", got {type(old).__name__} {old!r:.40}')
        try:
            table, answers = self._rows(old[0]), listed(old[1])
            if table.pairs != pairs:
                raise TypeError("expected as many texts a row as in the new rows")
            check_as_many(table.texts, answers, f"a {answer}")
            check_rows(table.texts, pairs)
            return self._written(table, checked(old[1], answers))
        except (TypeError, ValueError) as error:
            raise (TypeError if isinstance(error, TypeError) else ValueError)(f"old: {error}") from None

    def _of_run(self) -> dict[str, Any]:
        """What a run is told of the parameters that the classes share."""
        settings = self.settings
        if isinstance(settings, Mapping):
            settings = ",".join(f"{name}={x}" for name, x in settings.items())
        return {"columns": asked(self.columns), "folds": self.folds, "settings": settings or None}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = not self.columns
        tags.input_tags.two_d_array = bool(self.columns)
        return tags

    @computed
    def n_features_in_(self) -> int:
        """The number of columns that the model reads: one or two of texts, and the feature columns."""
        model = self._fitted()
        return (2 if model.reads_pairs else 1) + len(model.columns)

    def _loaded(self, folder: pathlib.Path) -> Any:
        model = _chumoku.Classifier.load(folder)
        if model.task not in self._tells:
            other = {"number": "TextRegressor"}.get(model.task, "TextClassifier")
            raise ValueError(f"{folder}: expected a model for {type(self).__name__}, got one for {other}")
        return model


def written(one: Any, pairs: bool) -> dict[str, str]:
    """A text or a pair as a row of a file."""
    return {"text_1": one[0], "text_2": one[1]} if pairs else {"text": one}


def chunks(texts: list[str], most: int = CHUNK) -> Iterator[list[str]]:
    """The texts in parts: so many at most, and of not too many characters unless one alone has more."""
    part: list[str] = []
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
    weights = numpy.asarray(listed(sample_weight), float)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight: expected a number for each of {rows} texts, got shape {weights.shape}")
    if not (numpy.isfinite(weights).all() and (weights >= 0).all() and (weights.sum() > 0 or not rows)):
        raise ValueError("sample_weight: expected finite numbers from 0 on, of which one is above 0")
    return weights


def weighted(rows: Rows, answers: list, sample_weight: Any) -> tuple[Rows, list, list[float] | None]:
    """Returns the rows of a weight above 0, their answers, and their weights, if there are any."""
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
    """Warns at the line that called this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("chumoku."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


__all__ = ["LEAST", "Predictor", "chunks", "mean", "weighted", "weights_of", "written"]
