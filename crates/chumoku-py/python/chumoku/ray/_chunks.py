"""Reads a file as ``chumoku predict`` does, in chunks that actors answer and write.

One task reads the file from beginning to end, as the command does. Each chunk of its rows becomes a row of a dataset.
If that task is lost it reads again, and Ray skips the chunks that it already has. The chunks come back in order, and
together form the command's output.
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
    """The result of a chunk, or of the end marker after all chunks."""

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
    """The file of a command line, in chunks of a number of rows."""

    def __init__(self, command: list[str], folder: str, rows: int) -> None:
        super().__init__()
        self._command, self._folder, self._rows = command, folder, rows

    def estimate_inmemory_data_size(self) -> int | None:
        """Unknown: the file is read as a stream."""
        return None

    def get_read_tasks(self, parallelism: int, *more: Any, **named: Any) -> list[ReadTask]:
        """One task, since a file is read from its beginning."""
        command, folder, rows = self._command, self._folder, self._rows
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(lambda: _read(command, folder, rows), metadata)]


def _read(command: list[str], folder: str, rows: int) -> Iterator[pa.Table]:
    at = 0
    failed, is_usage, skipped = None, False, None
    try:
        with _working_directory(folder):
            reader = _chumoku.RowReader.open(command)
        while (part := reader.part(rows)) is not None:
            yield _table(_PART, at, part, None, False, None)
            at += 1
        skipped = reader.skipped()
    except (ValueError, RuntimeError) as error:
        failed, is_usage = str(error), isinstance(error, ValueError)
    yield _table(_PART, at, None, failed, is_usage, skipped)


class Writer:
    """An actor that has loaded the model and writes the command's output."""

    def __init__(self, command: list[str], folder: str, cpus: int) -> None:
        _chumoku.set_num_threads(cpus)
        with _working_directory(folder):
            self._rows = _chumoku.RowAnswerer.load(command, False)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Answers and writes a chunk."""
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
    """Yields the result of each chunk of a command line's file in order, then that of the end marker."""
    context = ray.data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    # A chunk is a block of its own, however small, so that writing need not wait for many of them.
    context.target_max_block_size = 1
    context.target_min_block_size = 1
    folder = os.getcwd()
    with ray.data.DataContext.current(context):
        # With the same resource request as the actors, Ray would fuse the reading task with them, and do all work in
        # one process. With any CPU request, it would wait forever if the actors have all the cores.
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
def _working_directory(folder: str) -> Iterator[None]:
    """File names are relative to the user's working directory."""
    before = os.getcwd()
    if os.path.isdir(folder):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _table(schema: pa.Schema, *values: Any) -> pa.Table:
    return pa.table([pa.array([x], field.type) for x, field in zip(values, schema)], schema=schema)
