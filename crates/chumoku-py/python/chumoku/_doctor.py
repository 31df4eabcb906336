"""What is wrong with labelled texts, and what to label next."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any, Iterable, Sequence

from . import _chumoku, _files
from ._inputs import check_as_many, check_least, is_none, listed, texts_or_pairs
from ._labels import missing_values
from ._predictor import written


class Checkup:
    """What :func:`doctor` found. A notebook shows it in short; :meth:`save` writes the page, the table, or the numbers.

    Attributes:
        data: what ``chumoku doctor --json`` writes, with ``"row"``, counted from 0, where that has ``"line"``.
        wrong_labels: labels that are likely wrong, the most suspicious first: dictionaries with ``row``, ``text``, ``label``, ``likely``,
            ``probability`` and the n-grams that speak for it.
        ranking: all rows that could be judged, the most suspicious first.
    """

    def __init__(self, examined: Any) -> None:
        self._examined = examined
        self.data: dict[str, Any] = _of_rows(json.loads(examined.json()))

    def __reduce__(self) -> tuple:
        return Checkup, (self._examined if isinstance(self._examined, _Written) else _Written(self._examined),)

    @property
    def wrong_labels(self) -> list[dict[str, Any]]:
        return self.data["wrong_labels"]

    @property
    def ranking(self) -> list[int]:
        return self.data["ranking"]

    def page(self, lang: str = "en") -> str:
        """The page, in English or Japanese."""
        return self._examined.html(lang)

    def save(self, file: str | os.PathLike[str], lang: str = "en") -> None:
        """Writes the page (``.html``, which counts rows from 1), the table to work through (``.csv``), or the numbers (``.json``)."""
        file = pathlib.Path(file)
        ending = file.suffix.lower()
        if ending == ".csv":
            content = self._examined.csv()
        elif ending in (".html", ".htm"):
            content = self.page(lang).encode()
        elif ending == ".json":
            content = json.dumps(self.data, ensure_ascii=False, indent=1).encode()
        else:
            raise ValueError(f"{file}: expected a name that ends in .html, .csv or .json")
        _files.write(file, content)

    def __repr__(self) -> str:
        noise, found = self.data["noise"], self.data
        return (
            f"Checkup({found['rows']} rows; likely wrong: {len(found['wrong_labels'])} labels, {100 * noise['share']:.1f} % by estimate; "
            f"{len(found['groups'])} groups of equal or nearly equal texts)"
        )


class _Written:
    """What was examined somewhere else."""

    def __init__(self, examined: Any) -> None:
        self._json, self._csv = examined.json(), examined.csv()
        self._pages = {lang: examined.html(lang) for lang in ("en", "ja")}

    def json(self) -> str:
        return self._json

    def csv(self) -> bytes:
        return self._csv

    def html(self, lang: str) -> str:
        if lang not in self._pages:
            raise ValueError(f'lang: expected "en" or "ja", got {lang!r}')
        return self._pages[lang]


def doctor(
    X: Iterable[Any],
    y: Iterable[Any],
    *,
    test: tuple[Iterable[Any], Iterable[Any]] | None = None,
    unlabelled: Iterable[Any] | None = None,
    folds: int = 5,
    seed: int = 42,
    missing: Sequence[str] | None = None,
    merge_labels: bool = False,
) -> Checkup:
    """Looks for likely wrong labels, near duplicates and odd texts, as ``chumoku doctor`` does.

    Args:
        X: texts, or pairs of texts. Empty ones are found, not refused.
        y: as many labels, one a text; ``None`` or NaN where there is none.
        test: texts and labels of test rows: those that are also in X are found.
        unlabelled: texts of which some may be labelled next.
        folds: each row is judged by models that have seen the other folds alone.
        seed: deals rows into folds.
        missing: labels that mean that there is none, as ``["unknown"]``; ``[]`` takes every text as it stands. If ``None``, ``"NaN"``, ``"N/A"``
            and the like.
        merge_labels: labels in several spellings, such as Ham and ham, are one.

    Returns:
        what was found.

    Raises:
        ValueError: there are too few rows or classes.
    """
    folds, seed, missing = check_least("folds", folds, 2), check_least("seed", seed, 0), missing_values(missing)
    with tempfile.TemporaryDirectory(prefix="chumoku-") as place:
        folder = pathlib.Path(place)
        pairs = _write(folder / "rows.jsonl", X, y)
        of_test = of_unlabelled = None
        if test is not None:
            if not isinstance(test, tuple) or len(test) != 2:
                raise TypeError(f"test: expected two, texts and labels, got {type(test).__name__}")
            of_test = _written(folder / "test.jsonl", *test, pairs)
        if unlabelled is not None:
            of_unlabelled = _written(folder / "unlabelled.jsonl", unlabelled, None, pairs)
        try:
            return Checkup(_chumoku.examine(folder / "rows.jsonl", of_test, of_unlabelled, pairs, folds, seed, missing, bool(merge_labels)))
        except ValueError as error:
            told = str(error).replace(str(folder / "rows.jsonl"), "doctor(X, y)")
            raise ValueError(told.replace(str(folder / "test.jsonl"), "test").replace(str(folder / "unlabelled.jsonl"), "unlabelled")) from None


def _written(file: pathlib.Path, X: Iterable[Any], y: Iterable[Any] | None, as_pairs: bool) -> pathlib.Path | None:
    """The file of rows; none where there are none."""
    X = listed(X)
    _write(file, X, y, as_pairs)
    return file if X else None


def _write(file: pathlib.Path, X: Iterable[Any], y: Iterable[Any] | None, as_pairs: bool | None = None) -> bool:
    """Writes rows; whether they are pairs."""
    given = listed(X)
    is_pair = any(isinstance(one, (tuple, list)) for one in given)
    empty = ("", "") if is_pair else ""
    filled = (empty if is_none(one) else tuple("" if is_none(x) else x for x in one) if isinstance(one, (tuple, list)) else one for one in given)
    texts, pairs = texts_or_pairs(list(filled))
    if as_pairs is not None and texts and pairs != as_pairs:
        raise TypeError(f"expected {'pairs of texts' if as_pairs else 'single texts'} everywhere, got {'pairs' if pairs else 'single texts'} too")
    labels = [None] * len(texts) if y is None else listed(y)
    check_as_many(texts, labels, "a label")
    with open(file, "w", encoding="utf-8") as out:
        for text, label in zip(texts, labels):
            row: dict[str, str] = written(text, pairs)
            if y is not None:
                row["label"] = "" if is_none(label) else str(label)
            json.dump(row, out)
            out.write("\n")
    return pairs


def _of_rows(found: Any, name: str = "") -> Any:
    """Lines of our file as rows of what was given."""
    if isinstance(found, dict):
        return {("row" if key == "line" else "rows" if key == "lines" else key): _of_rows(x, key) for key, x in found.items()}
    if name in ("line", "of") and isinstance(found, int) or name == "lines of it":
        return found - 1
    if isinstance(found, list):
        inner = "lines of it" if name in ("lines", "ranking", "contradicted_by") else ""
        return [_of_rows(x, inner) for x in found]
    return found


__all__ = ["Checkup", "doctor"]
