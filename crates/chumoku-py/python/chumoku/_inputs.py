"""What estimators are given: texts and labels out of whatever holds them."""

from __future__ import annotations

from typing import Any


def listed(x: Any) -> list:
    """A list of whatever holds texts or labels: lists, arrays, columns of tables."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"expected several texts, got one {type(x).__name__}: put it into a list")
    if isinstance(x, dict) or hasattr(x, "columns") and not hasattr(x, "to_pylist"):
        raise TypeError(f"expected a list or a column, got a whole {type(x).__name__}: name one of its columns")
    if x is None or getattr(x, "ndim", 1) == 0:
        raise TypeError(f"expected a list or a column, got {type(x).__name__}")
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(x, method):
            x = getattr(x, method)()
            break
    return list(x)


def texts_of(x: Any) -> list[str]:
    """Texts to be read; what is none is named with its row."""
    texts = listed(x)
    for row, text in enumerate(texts):
        check_text(f"row {row}", text)
    return texts


def texts_or_pairs(x: Any) -> tuple[list, bool]:
    """Texts, or pairs of texts as tuples; and whether they are pairs. What is neither is named with its row."""
    given = listed(x)
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
    """Texts to learn from or to answer of, which are not empty."""
    for row, one in enumerate(given):
        for text in one if pairs else (one,):
            check_row(row, "text", text)


def rows_of(x: Any, what: str) -> list[str]:
    """Texts to learn from or to answer of, which are not empty."""
    texts = texts_of(x)
    for row, text in enumerate(texts):
        check_row(row, what, text)
    return texts


def is_none(x: Any) -> bool:
    """Whether it stands for nothing: None, NaN, or what pandas has for them."""
    if x is None or type(x).__name__ in ("NAType", "NaTType"):
        return True
    return not isinstance(x, (str, list, tuple, set, frozenset)) and getattr(x, "ndim", 0) == 0 and bool(x != x)


def check_text(place: str, text: Any) -> None:
    if not isinstance(text, str):
        got = "nothing (None or NaN)" if is_none(text) else f"{type(text).__name__} {text!r:.40}"
        raise TypeError(f"{place}: expected a text, got {got}")


def check_row(row: int, what: str, x: str) -> None:
    if not x.strip():
        raise ValueError(f"row {row}: expected some characters, got an empty {what}: leave such rows out")
    try:
        x.encode()
    except UnicodeEncodeError:
        raise ValueError(f"row {row}: expected a {what} in Unicode, got a lone surrogate: {x!a:.40}") from None


def check_as_many(texts: list, others: list, what: str) -> None:
    if len(texts) != len(others):
        raise ValueError(f"expected {what} for each of {len(texts)} texts, got {len(others)}")


def check_least(name: str, x: int, least: int) -> None:
    if not isinstance(x, int) or x < least:
        raise ValueError(f"{name}: expected a whole number from {least} on, got {x!r}")
