"""Files that appear whole or not at all, and replace nothing that was read."""

from __future__ import annotations

import os

from . import _chumoku


def write(path: str | os.PathLike[str], content: bytes, own: bool = False) -> None:
    """Writes a file whole. Only one of a model's folder (``own``) may replace a file that this process has read.

    Raises:
        ValueError: the file is one that was read, such as one of a model's folder.
        OSError: it cannot be written.
    """
    _chumoku.write_file(path, content, own)
