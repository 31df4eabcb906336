"""Atomic file writes that never replace an input."""

from __future__ import annotations

import os

from . import _chumoku


def write(path: str | os.PathLike[str], content: bytes, own: bool = False) -> None:
    """Writes a file atomically. Only a file of a model's folder (``own``) may replace one that this process has read.

    Raises:
        ValueError: this process has read the file, for example as part of a model.
        OSError: the file cannot be written.
    """
    _chumoku.write_file(path, content, own)
