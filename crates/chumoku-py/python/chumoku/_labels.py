"""Labels of any type, as they are given and as they are told."""

from __future__ import annotations

import sys
from typing import Any, Iterable

from ._inputs import listed, only_column


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
