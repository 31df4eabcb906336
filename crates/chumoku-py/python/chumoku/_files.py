"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import pathlib


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes beside, flushes, renames: whoever reads meanwhile sees the old file or the new one."""
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.new")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
