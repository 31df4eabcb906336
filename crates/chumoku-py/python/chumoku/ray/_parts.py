"""A file as ``chumoku predict`` reads it, in parts that actors answer as it writes them.

One task reads the file, from its beginning to its end, as the command reads it; each part of its rows becomes a row of a dataset. If
that task is lost it reads again, and Ray takes what it had not yet. The parts come back in order, and are the command's output.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, NamedTuple

import pyarrow as pa
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from .. import _chumoku
from ._data import pool


class Written(NamedTuple):
    """What became of a part, or of the end behind all parts."""

    at: int
    """Which part it is, from 0."""
    content: bytes | None
    """What the command writes; nothing at the end."""
    rows: int
    unanswered: int
    reason: str | None
    """Why the first of those has no answer."""
    failed: str | None
    """What ended the work before its end, and whether input or use are at fault."""
    is_usage: bool
    skipped: str | None
    """At the end: the rows that were left out."""


_PART = pa.schema([("at", pa.int64()), ("part", pa.binary()), ("failed", pa.string()), ("is_usage", pa.bool_()), ("skipped", pa.string())])
_WRITTEN = pa.schema(
    [
        ("at", pa.int64()),
        ("content", pa.binary()),
        ("rows", pa.int64()),
        ("unanswered", pa.int64()),
        ("reason", pa.string()),
        ("failed", pa.string()),
        ("is_usage", pa.bool_()),
        ("skipped", pa.string()),
    ]
)


class Parts(Datasource):
    """The file of a command line, in parts of so many rows."""

    def __init__(self, command: list[str], folder: str, rows: int) -> None:
        super().__init__()
        self._command, self._folder, self._rows = command, folder, rows

    def estimate_inmemory_data_size(self) -> int | None:
        """Not known: the file is read as a stream."""
        return None

    def get_read_tasks(self, parallelism: int, *more: Any, **named: Any) -> list[ReadTask]:
        """One task, for a file is read from its beginning on."""
        command, folder, rows = self._command, self._folder, self._rows
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(lambda: _read(command, folder, rows), metadata)]


def _read(command: list[str], folder: str, rows: int) -> Iterator[pa.Table]:
    at = 0
    failed, is_usage, skipped = None, False, None
    try:
        with _in(folder):
            reader = _chumoku.RowReader.open(command)
        while (part := reader.part(rows)) is not None:
            yield _table(_PART, at, part, None, False, None)
            at += 1
        skipped = reader.skipped()
    except (ValueError, RuntimeError) as error:
        failed, is_usage = str(error), isinstance(error, ValueError)
    yield _table(_PART, at, None, failed, is_usage, skipped)


class Writer:
    """An actor that has read the model, and writes what the command would."""

    def __init__(self, command: list[str], folder: str, cpus: int) -> None:
        _chumoku.set_num_threads(cpus)
        with _in(folder):
            self._rows = _chumoku.RowAnswerer.load(command, False)

    def __call__(self, table: pa.Table) -> pa.Table:
        """A part, written."""
        (given,) = table.to_pylist()
        at, part, failed, is_usage, skipped = (given[name] for name in _PART.names)
        content, rows, unanswered, reason = None, 0, 0, None
        if part is not None:
            try:
                content, rows, unanswered, reason = self._rows.write(part)
            except (ValueError, RuntimeError) as error:
                failed, is_usage = str(error), isinstance(error, ValueError)
        return _table(_WRITTEN, at, content, rows, unanswered, reason, failed, is_usage, skipped)


def written(command: list[str], *, workers: int | None, cpus: int, rows: int) -> Iterator[Written]:
    """What becomes of each part of a command line's file, in order, and behind them of the end."""
    context = ray.data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    # A part is a block of its own, however small: who answers parts is not to wait for many of them.
    context.target_max_block_size = 1
    context.target_min_block_size = 1
    folder = os.getcwd()
    with ray.data.DataContext.current(context):
        # A task that asked for as much as the actors do would be done by one of them, together with all their work; and one that
        # asked for anything would wait for ever where actors have all the cores.
        parts = ray.data.read_datasource(Parts(command, folder, rows), num_cpus=0, override_num_blocks=1)
        arguments = {"command": command, "folder": folder, "cpus": cpus}
        answered = parts.map_batches(Writer, batch_size=1, batch_format="pyarrow", fn_constructor_kwargs=arguments, **pool(workers, cpus))
        expected = 0
        for table in answered.iter_batches(batch_size=None, batch_format="pyarrow"):
            for row in table.to_pylist():
                one = Written(*(row[name] for name in _WRITTEN.names))
                if one.at != expected:
                    raise RuntimeError(f"expected part {expected} of the rows from Ray, got part {one.at}: nothing was written; run it again")
                expected += 1
                yield one


@contextlib.contextmanager
def _in(folder: str) -> Iterator[None]:
    """Names of files are those that somebody typed, where they typed them."""
    before = os.getcwd()
    if os.path.isdir(folder):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _table(schema: pa.Schema, *values: Any) -> pa.Table:
    return pa.table([pa.array([x], field.type) for x, field in zip(values, schema)], schema=schema)
