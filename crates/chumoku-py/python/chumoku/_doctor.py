"""Finds problems in labeled texts, and suggests what to label next."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any, Iterable, Sequence

from . import _chumoku, _files
from ._inputs import as_list, check_as_many, check_least, check_unicode, is_none, texts_or_pairs, with_rows
from ._labels import missing_values
from ._predictor import written


class Checkup:
    """The findings of :func:`doctor`. A notebook shows a summary; :meth:`save` writes the page, the table or the
    numbers.

    Attributes:
        data: the output of ``chumoku doctor --json``, with ``"row"`` (counted from 0) in place of ``"line"``.
        wrong_labels: probably wrong labels, most suspicious first: dictionaries with ``row``, ``text``, ``label``,
            ``likely``, ``probability`` and the n-grams that support the likely label.
        ranking: all rows with a prediction, most suspicious first.
    """

    def __init__(self, examined: Any) -> None:
        self._examined = examined
        self.data: dict[str, Any] = _with_row_numbers(json.loads(examined.json()))

    def __reduce__(self) -> tuple:
        return Checkup, (self._examined if isinstance(self._examined, _Written) else _Written(self._examined),)

    @property
    def wrong_labels(self) -> list[dict[str, Any]]:
        return self.data["wrong_labels"]

    @property
    def ranking(self) -> list[int]:
        return self.data["ranking"]

    def page(self, lang: str = "en") -> str:
        """The report, in English or Japanese."""
        return self._examined.html(lang)

    def save(self, file: str | os.PathLike[str], lang: str = "en") -> None:
        """Writes the report (``.html``, which counts rows from 1), the table to work through (``.csv``), or the numbers
        (``.json``)."""
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
    """Restores findings from another process."""

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
    """Finds probably wrong labels, near duplicates and unusual texts, as ``chumoku doctor`` does.

    Args:
        X: texts, or pairs of texts. Empty texts are reported as findings.
        y: one label per text; ``None`` or NaN for a missing label.
        test: texts and labels of test rows. Test rows that also occur in X are reported.
        unlabelled: texts without labels; the result suggests which to label next.
        folds: the number of cross-validation folds. Each row is judged by models trained on the other folds.
        seed: seed of the split into folds.
        missing: labels that stand for a missing label, such as ``["unknown"]``; ``[]`` accepts every string. The
            default is ``"NaN"``, ``"N/A"`` and similar.
        merge_labels: merge spelling variants of a label, such as Ham and ham.

    Returns:
        The findings.

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
            files = {"rows.jsonl": "doctor(X, y)", "test.jsonl": "test", "unlabelled.jsonl": "unlabelled"}
            raise ValueError(with_rows(str(error), {folder / file: name for file, name in files.items()})) from None


def _written(file: pathlib.Path, X: Iterable[Any], y: Iterable[Any] | None, as_pairs: bool) -> pathlib.Path | None:
    """Returns the path of the rows; None if there are none."""
    X = as_list(X)
    _write(file, X, y, as_pairs)
    return file if X else None


def _write(file: pathlib.Path, X: Iterable[Any], y: Iterable[Any] | None, as_pairs: bool | None = None) -> bool:
    """Writes rows to a file; returns whether they are pairs."""
    given = as_list(X)
    is_pair = any(isinstance(one, (tuple, list)) for one in given)
    empty = ("", "") if is_pair else ""
    filled = (empty if is_none(one) else tuple("" if is_none(x) else x for x in one) if isinstance(one, (tuple, list)) else one for one in given)
    texts, pairs = texts_or_pairs(list(filled))
    if as_pairs is not None and texts and pairs != as_pairs:
        raise TypeError(f"expected {'pairs of texts' if as_pairs else 'single texts'} everywhere, got {'pairs' if pairs else 'single texts'} too")
    labels = [None] * len(texts) if y is None else as_list(y)
    check_as_many(texts, labels, "a label")
    with open(file, "w", encoding="utf-8") as out:
        for at, (text, label) in enumerate(zip(texts, labels)):
            row: dict[str, str] = written(text, pairs)
            if y is not None:
                row["label"] = "" if is_none(label) else str(label)
                check_unicode(f"row {at}", "label", row["label"])
            json.dump(row, out)
            out.write("\n")
    return pairs


def _with_row_numbers(found: Any, name: str = "") -> Any:
    """Replaces lines of the temporary file in a message by rows of the caller's data."""
    if isinstance(found, dict):
        return {("row" if key == "line" else "rows" if key == "lines" else key): _with_row_numbers(x, key) for key, x in found.items()}
    if name in ("line", "of") and isinstance(found, int) or name == "lines of it":
        return found - 1
    if isinstance(found, list):
        inner = "lines of it" if name in ("lines", "ranking", "contradicted_by") else ""
        return [_with_row_numbers(x, inner) for x in found]
    return found


__all__ = ["Checkup", "doctor"]
