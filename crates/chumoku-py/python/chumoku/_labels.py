"""Labels of any type, as they are given and as they are told."""

from __future__ import annotations

import sys
from typing import Any, Iterable

from . import _chumoku
from ._inputs import check_row, is_none, listed, only_column


def labels_of(y: Any) -> list:
    """A list of labels, each as it was given; those of arrays as Python has them, but times as NumPy has them."""
    y = only_column(y)
    if getattr(getattr(y, "dtype", None), "kind", None) in ("M", "m"):
        import numpy

        return list(numpy.asarray(y))
    return listed(y)


def check_label(row: int, label: Any) -> None:
    """A label is told by its text, and looked up by itself."""
    of = type(label)
    try:
        hash(label)
        lacks = "has no text of its own" if of.__str__ is object.__str__ and of.__repr__ is object.__repr__ else None
    except TypeError:
        lacks = "cannot be hashed"
    if lacks is not None:
        raise TypeError(f"row {row}: expected a label (a text, a number, a boolean, a date, …), got {of.__name__}, which {lacks}")


def missing_values(missing: Any) -> list[str] | None:
    """Returns the texts that stand for a missing label; None for those that the command knows."""
    if missing is None:
        return None
    values = None if isinstance(missing, (str, bytes)) else list(missing)
    if values is None or not all(isinstance(value, str) for value in values):
        raise TypeError(f"missing: expected a list of texts, got {missing!r:.40}")
    return values


class LabelReader:
    """Reads labels as the command reads those of a file. A missing one raises ValueError with its row; a text of ``known`` is none."""

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
    """Labels that are written otherwise must be others."""
    seen: dict[Any, Any] = {}
    for label in labels:
        other = seen.setdefault(label, label)
        if other is not label:
            raise ValueError(f"labels {other!r} and {label!r} are equal, and written otherwise")


def sorted_classes(labels: list) -> tuple[Any, list[int]]:
    """An array of different labels, in their own type where NumPy has one, sorted as scikit-learn sorts them; and their places.

    Those of types that have no order, as members of an enumeration, are sorted by their texts. Without NumPy they are a list.
    """
    try:
        import numpy
    except ModuleNotFoundError:
        order = _sorted_places(labels)
        return [labels[place] for place in order], order
    array = numpy.asarray(labels)
    # What NumPy makes of numbers and texts together, or of integers that are too large, is something else.
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
    """A label out of an array: Python's own, but for times."""
    numpy = sys.modules.get("numpy")
    is_from_array = numpy is not None and isinstance(label, numpy.generic) and label.dtype.kind not in "Mm"
    return label.item() if is_from_array else label
