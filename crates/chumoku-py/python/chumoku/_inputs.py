"""Converts the inputs of estimators: texts and labels from lists, arrays and tables."""

from __future__ import annotations

import operator
import re
from typing import Any, Mapping


def names_of(x: Any) -> list | None:
    """Returns the names of a table's columns, or None if it is no table."""
    if isinstance(x, Mapping):
        return list(x)
    names = getattr(x, "column_names", None)
    names = getattr(x, "columns", None) if names is None else names
    return None if names is None or callable(names) else list(names)


def only_column(x: Any) -> Any:
    """Returns the only column of a table or of an array of shape (n, 1). Returns everything else as it is, except that
    sparse matrices become arrays."""
    if hasattr(x, "toarray"):
        x = x.toarray()
    names = names_of(x)
    if names is not None and len(names) == 1:
        return x[names[0]]
    shape = getattr(x, "shape", None)
    return x[:, 0] if names is None and isinstance(shape, tuple) and len(shape) == 2 and shape[1] == 1 else x


def as_list(x: Any) -> list:
    """Converts texts or labels to a list, from lists, arrays, columns of tables, or tables with one column."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"expected several texts, got one {type(x).__name__}: put it into a list")
    if isinstance(x, (set, frozenset)):
        raise TypeError(f"expected a list or a column, got {type(x).__name__}, which has no order: make it a list")
    x = only_column(x)
    if names_of(x) is not None:
        raise TypeError(f"expected a list or a column, got a whole {type(x).__name__}: name one of its columns")
    if x is None or getattr(x, "ndim", 1) == 0:
        raise TypeError(f"expected a list or a column, got {type(x).__name__}")
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(x, method):
            x = getattr(x, method)()
            break
    return list(x)


def texts_of(x: Any) -> list[str]:
    """Checks texts to read. An error names the row of a value that is not a text."""
    texts = as_list(x)
    for row, text in enumerate(texts):
        check_text(f"row {row}", text)
    return texts


def texts_or_pairs(x: Any) -> tuple[list, bool]:
    """Checks texts, or pairs of texts as tuples; also returns whether they are pairs. An error names the row of any
    other value."""
    given = as_list(x)
    pairs = any(isinstance(one, (tuple, list)) for one in given)
    for row, one in enumerate(given):
        if not pairs:
            check_text(f"row {row}", one)
        elif not isinstance(one, (tuple, list)) or len(one) != 2:
            got = f"{len(one)} of them" if isinstance(one, (tuple, list)) else f"{type(one).__name__} {one!r:.40}"
            raise TypeError(f"row {row}: expected two texts, as in other rows, got {got}")
        else:
            for place, text in zip(("first", "second"), one):
                check_text(f"row {row}, {place} text", text)
    return ([tuple(one) for one in given] if pairs else given), pairs


def check_rows(given: list, pairs: bool) -> None:
    """Checks that texts for training or prediction are not empty."""
    for row, one in enumerate(given):
        for text in one if pairs else (one,):
            check_row(row, "text", text)


def rows_of(x: Any, what: str) -> list[str]:
    """Checks that texts for training or prediction are not empty."""
    texts = texts_of(x)
    for row, text in enumerate(texts):
        check_row(row, what, text)
    return texts


def is_none(x: Any) -> bool:
    """Returns true for a missing value: None, NaN, or their counterparts in pandas."""
    if x is None or type(x).__name__ in ("NAType", "NaTType"):
        return True
    return not isinstance(x, (str, list, tuple, set, frozenset)) and getattr(x, "ndim", 0) == 0 and bool(x != x)


def check_text(place: str, text: Any) -> None:
    """Checks that a value is a text in Unicode."""
    if not isinstance(text, str):
        got = "nothing (None or NaN)" if is_none(text) else f"{type(text).__name__} {text!r:.40}"
        raise TypeError(f"{place}: expected a text, got {got}")
    check_unicode(place, "text", text)


def check_unicode(place: str, what: str, x: str) -> None:
    """Checks that a string can be encoded."""
    try:
        x.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place}: expected a {what} in Unicode, got a lone surrogate: {x!a:.40}") from None


def check_row(row: int, what: str, x: str) -> None:
    """Checks that a text or a label is not empty, and in Unicode."""
    if not x.strip():
        raise ValueError(f"row {row}: expected some characters, got an empty {what}: leave such rows out")
    check_unicode(f"row {row}", what, x)


def check_as_many(texts: list, others: list, what: str) -> None:
    if len(texts) != len(others):
        raise ValueError(f"expected {what} for each of {len(texts)} texts, got {len(others)}")


def whole(x: Any) -> int | None:
    """Returns a whole number as a Python integer, or None for anything else, such as a boolean."""
    try:
        return None if isinstance(x, bool) else operator.index(x)
    except TypeError:
        return None


def check_least(name: str, x: Any, least: int) -> int:
    """Returns a Python integer after checking that the number is whole and at least `least`."""
    number = whole(x)
    if number is None or not least <= number < 1 << 64:
        raise ValueError(f"{name}: expected a whole number from {least} on, got {x!r:.40}")
    return number


def with_rows(message: str, files: Mapping[Any, str]) -> str:
    """Replaces temporary files in a message by the names of what they hold, and their lines by rows from 0."""
    for file, name in files.items():
        place = rf"(?:{re.escape(str(file))}|^{re.escape(name)}):(\d+)(?::\d+)?"
        message = re.sub(place, lambda found: f"{name}: row {int(found[1]) - 1}", message)
        message = message.replace(str(file), name)
    return message
