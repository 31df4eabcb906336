"""Table inputs: one or two text columns, and feature columns."""

from __future__ import annotations

import datetime
from typing import Any, Iterable, NamedTuple, Sequence

from ._inputs import check_as_many, check_text, is_none, names_of
from ._labels import labels_of

_KINDS = ("number", "category", "date")


class Rows(NamedTuple):
    """Texts (or pairs of texts), and the values of each one's feature columns."""

    texts: list
    pairs: bool
    cells: list[list[str]]


def feature_columns(columns: Sequence[str] | str | None) -> list[tuple[str, str | None]]:
    """Parses column names with optional types, such as ``"shop:category"``."""
    if isinstance(columns, str):
        raise TypeError(f"columns: expected a list of names, got one text: [{columns!r}]")
    found: list[tuple[str, str | None]] = []
    for column in columns or ():
        if not isinstance(column, str) or not column.strip():
            raise TypeError(f"columns: expected names of columns, got {column!r:.40}")
        name, _, kind = column.rpartition(":")
        of_kind = (name.strip(), kind) if name and kind in _KINDS else (column.strip(), None)
        if of_kind[0] in [other for other, _ in found]:
            raise ValueError(f"columns: {of_kind[0]!r} is named twice")
        found.append(of_kind)
    return found


def read(x: Any, columns: Iterable[str], text: Any) -> Rows:
    """Splits a table into texts and feature columns. Without ``text``, texts are in the only remaining column, or in
    the one named ``text``."""
    columns, names = list(columns), names_of(x)
    if names is None:
        raise TypeError(
            f"expected a table (a DataFrame or a dictionary of columns), since columns= names feature columns, got {type(x).__name__}"
        )
    if text is None:
        others = [name for name in names if name not in columns]
        if len(others) != 1 and "text" not in others:
            shown = ", ".join(map(str, others[:8])) or "none"
            raise ValueError(f"text: expected the name of the text column; the columns other than columns={columns} are: {shown}")
        text = others[0] if len(others) == 1 else "text"
    of_text = list(text) if isinstance(text, (tuple, list)) else [text]
    if len(of_text) not in (1, 2):
        raise ValueError(f"text: expected the name of a column, or of two, got {len(of_text)}")
    for what, name in [("text", name) for name in of_text] + [("columns", name) for name in columns]:
        if name not in names:
            raise ValueError(f"{what}: the table has no column {name!r}; it has {', '.join(map(str, names[:12]))}")
    texts = [labels_of(x[name]) for name in of_text]
    for column in texts[1:]:
        check_as_many(texts[0], column, "another text")
    for name, column in zip(of_text, texts):
        for row, one in enumerate(column):
            check_text(f"row {row}, column {name!r}", one)
    values = []
    for name in columns:
        column = labels_of(x[name])
        check_as_many(texts[0], column, f"a value of column {name!r}")
        values.append(_cells(column))
        for row, cell in enumerate(values[-1]):
            check_text(f"row {row}, column {name!r}", cell)
    pairs = len(of_text) == 2
    cells = [list(row) for row in zip(*values)] if values else [[] for _ in texts[0]]
    return Rows(list(zip(*texts)) if pairs else texts[0], pairs, cells)


def _cells(column: list) -> list[str]:
    """Converts values to their form in a file; an empty string for a missing value."""
    times = [_time(x) for x in column]
    # Dates that a library stores as times.
    are_days = all(time.time() == datetime.time() for time in times if isinstance(time, datetime.datetime))
    found = []
    for x, time in zip(column, times):
        if is_none(x):
            found.append("")
        elif isinstance(time, datetime.datetime):
            found.append(str(time.date()) if are_days else time.strftime("%Y-%m-%d %H:%M:%S"))
        else:
            found.append(str(x))
    return found


def _time(x: Any) -> Any:
    """Converts NumPy times to Python's."""
    if type(x).__name__ == "datetime64" and not is_none(x):
        return x.astype("datetime64[us]").item()
    return None if is_none(x) else x
