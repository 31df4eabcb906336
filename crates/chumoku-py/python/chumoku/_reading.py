"""Reads files of labeled texts as ``chumoku train`` does."""

from __future__ import annotations

import os
import pathlib
from typing import Any, NamedTuple, Sequence

from . import _chumoku


class LabelledTexts(NamedTuple):
    """The texts of a file with their labels.

    Attributes:
        texts: strings, or pairs of strings for two text columns.
        labels: a string per text, a list of strings (``task`` is ``"labels"``), or a number (``"score"``).
        task: ``"classify"``, ``"labels"`` or ``"score"``.
        description: how the file was read and why, in one line.
    """

    texts: list[Any]
    labels: list[Any]
    task: str
    description: str


def read_table(
    file: str | os.PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    missing: Sequence[str] | None = None,
    separator: str | None = None,
    task: str | None = None,
    merge_labels: bool = False,
    skip_bad_rows: bool = False,
) -> LabelledTexts:
    """Reads a CSV, TSV, JSONL, JSON, Parquet, Excel or fastText file as ``chumoku train`` does.

    Args:
        file: the file, gzip-compressed or not.
        text: the text column: a name, a number from 1, a path such as ``message.body``, or two with a comma.
        label: the column of the label.
        header: whether the first row holds column names; detected by default.
        encoding: the encoding of a file that is not UTF-8.
        delimiter: the field separator of a CSV file.
        sheet: the sheet of a workbook.
        missing: label values that stand for a missing label; ``[]`` accepts every value.
        separator: the separator between several labels of a text.
        task: ``"classify"``, ``"labels"`` or ``"score"``; detected by default.
        merge_labels: merge spelling variants of a label, such as Ham and ham.
        skip_bad_rows: skip unusable rows.

    Raises:
        ValueError: the file cannot be read, or two interpretations are about equally likely. The message names the
            options that decide.
    """
    reading = {
        "text": text,
        "label": label,
        "header": header,
        "encoding": encoding,
        "delimiter": delimiter,
        "sheet": sheet,
        "missing": None if missing is None else list(missing),
        "separator": separator,
        "task": task,
        "merge_labels": merge_labels,
        "skip_bad_rows": skip_bad_rows,
    }
    found, texts, labels, description = _chumoku.read_table(pathlib.Path(file), reading)
    return LabelledTexts(texts, labels, found, description)
