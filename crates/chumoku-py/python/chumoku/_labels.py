"""Labels of any type: conversion to strings and back."""

from __future__ import annotations

import sys
from typing import Any, Iterable

from . import _chumoku
from ._inputs import as_list, check_row, is_none, only_column


def labels_of(y: Any) -> list:
    """Returns a list of labels in their original types. Labels from arrays become Python objects, except times, which
    stay NumPy's."""
    y = only_column(y)
    if getattr(getattr(y, "dtype", None), "kind", None) in ("M", "m"):
        import numpy

        return list(numpy.asarray(y))
    return as_list(y)


def check_label(row: int, label: Any) -> None:
    """Returns the string of a label; the label itself is the key for lookups."""
    of = type(label)
    try:
        hash(label)
        lacks = "has no string form of its own" if of.__str__ is object.__str__ and of.__repr__ is object.__repr__ else None
    except TypeError:
        lacks = "cannot be hashed"
    if lacks is not None:
        raise TypeError(f"row {row}: expected a label (a text, a number, a boolean, a date, …), got {of.__name__}, which {lacks}")


def missing_values(missing: Any) -> list[str] | None:
    """Returns the strings that stand for a missing label; None for the command's default."""
    if missing is None:
        return None
    values = None if isinstance(missing, (str, bytes)) else list(missing)
    if values is None or not all(isinstance(value, str) for value in values):
        raise TypeError(f"missing: expected a list of texts, got {missing!r:.40}")
    return values


class LabelReader:
    """Reads labels as the command reads those of a file. A missing label raises ValueError with its row. A string in
    ``known`` is never missing."""

    def __init__(self, missing: Any, known: Iterable[str] = ()) -> None:
        self._missing = missing_values(missing)
        self._read: dict[str, str | None] = {text: text for text in known}

    def __call__(self, row: int, label: Any) -> Any:
        if is_none(label):
            if self._missing != []:
                raise ValueError(f"row {row}: expected a label, got nothing (None or NaN): {_LEAVE_OUT}")
            label = str(label)
        check_label(row, label)
        text = str(label)
        check_row(row, "label", text)
        if text not in self._read:
            [self._read[text]] = _chumoku.read_labels([text], self._missing)
        found = self._read[text]
        if found is None:
            raise ValueError(f"row {row}: expected a label, got {label!r:.40}, which stands for a missing one: {_LEAVE_OUT}")
        return found if type(label) is str else label


_LEAVE_OUT = "leave such rows out, or give missing=[] to take every label as it stands"


def check_distinct(labels: Iterable[Any]) -> None:
    """Checks that different strings stand for different labels."""
    seen: dict[Any, Any] = {}
    for label in labels:
        other = seen.setdefault(label, label)
        if other is not label:
            raise ValueError(f"labels {other!r} and {label!r} are equal, but have different string forms")


def sorted_classes(labels: list) -> tuple[Any, list[int]]:
    """Returns the distinct labels, sorted, and the index of each. The result is an array of their own type if NumPy has
    one.

    Labels without an order, such as enum members, are sorted by their strings. Without NumPy the result is a list.
    """
    try:
        import numpy
    except ModuleNotFoundError:
        order = _sorted_places(labels)
        return [labels[place] for place in order], order
    array = numpy.asarray(labels)
    # NumPy changes the values of mixed numbers and strings, and of integers that are too large.
    is_own = array.ndim == 1 and array.dtype != object and all(_is_same(a, b) for a, b in zip(array, labels))
    if is_own:
        array, first = numpy.unique(array, return_index=True)
        return array, first.tolist()
    order = _sorted_places(labels)
    array = numpy.empty(len(labels), object)
    for at, place in enumerate(order):
        array[at] = labels[place]
    return array, order


def _is_same(found: Any, label: Any) -> bool:
    import numpy

    return bool(found == label) and (isinstance(label, numpy.generic) or type(own(found)) is type(label))


def _sorted_places(labels: list) -> list[int]:
    places = range(len(labels))
    try:
        return sorted(places, key=lambda i: labels[i])
    except TypeError:
        return sorted(places, key=lambda i: (type(labels[i]).__name__, str(labels[i])))


def own(label: Any) -> Any:
    """Converts an array element to a Python label, except for times."""
    numpy = sys.modules.get("numpy")
    is_from_array = numpy is not None and isinstance(label, numpy.generic) and label.dtype.kind not in "Mm"
    return label.item() if is_from_array else label
