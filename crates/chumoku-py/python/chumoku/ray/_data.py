"""Ray Data datasets, answered by actors that have loaded the model."""

from __future__ import annotations

import copy
import os
import warnings
from typing import Any, Mapping, Sequence

import pyarrow
import pyarrow.parquet
import ray
import ray.data
from ray.data.datasource import BlockBasedFileDatasink

from .. import _chumoku, arrow


def predict(
    dataset: ray.data.Dataset,
    model: str | os.PathLike[str],
    *,
    column: str | tuple[str, str] = "text",
    top: int | None = None,
    abstain: float | None = None,
    threshold: Mapping[str, float] | float | None = None,
    precision_at_least: Mapping[str, float] | float | None = None,
    set: Mapping[str, Any] | None = None,
    precision: str | None = None,
    place: Sequence[str] | None = None,
    workers: int | None = None,
    cpus: int = 1,
    batch_size: int = 1024,
) -> ray.data.Dataset:
    """Answers each row as ``chumoku predict`` does. Returns the dataset with the columns of
    :func:`chumoku.arrow.predict`.

    The result is lazy: work starts when rows are taken or written (:func:`write_parquet`, or Ray's ``write_json`` and
    ``write_csv``). Rows keep their order. A lost worker is restarted and its batches are answered again, so no row is
    missing or duplicated. Memory does not grow with the data. A row that cannot be answered stays in place, with the
    reason in ``error``. Errors in the model, an argument, or a column that Ray already knows are raised at once.

    Args:
        dataset: rows with the texts in a column.
        model: the model's folder, which every worker must be able to read.
        column, top, abstain, threshold, precision_at_least, set, precision, place: see :func:`chumoku.arrow.predict`.
        workers: the maximum number of actors, each of which loads the model; by default as many as fit into the
            cluster. Reading and writing need a core of their own.
        cpus: the number of cores per actor.
        batch_size: the number of rows per batch; no answer depends on it.

    Raises:
        ValueError: the model or an argument cannot be used, or a column is missing.
        TypeError: the value is not a dataset, or a column that should hold texts holds something else.
    """
    answers = arrow.predict(
        model,
        column=column,
        top=top,
        abstain=abstain,
        threshold=threshold,
        precision_at_least=precision_at_least,
        set=set,
        precision=precision,
        place=place,
    )
    return _answered(dataset, answers, workers, cpus, batch_size)


def embed(
    dataset: ray.data.Dataset,
    model: str | os.PathLike[str],
    *,
    column: str = "text",
    prompt: str | None = None,
    normalize: bool | None = None,
    precision: str | None = None,
    place: Sequence[str] | None = None,
    workers: int | None = None,
    cpus: int = 1,
    batch_size: int = 256,
) -> ray.data.Dataset:
    """Adds the vector of each row's text, as :func:`chumoku.arrow.embed` does. Otherwise as :func:`predict`."""
    answers = arrow.embed(model, column=column, prompt=prompt, normalize=normalize, precision=precision, place=place)
    return _answered(dataset, answers, workers, cpus, batch_size)


def explain(
    dataset: ray.data.Dataset,
    model: str | os.PathLike[str],
    *,
    column: str | tuple[str, str] = "text",
    method: str | None = None,
    set: Mapping[str, Any] | None = None,
    precision: str | None = None,
    place: Sequence[str] | None = None,
    workers: int | None = None,
    cpus: int = 1,
    batch_size: int = 64,
) -> ray.data.Dataset:
    """Adds the explanation of each row's answer, as :func:`chumoku.arrow.explain` does. Otherwise as :func:`predict`.
    """
    answers = arrow.explain(model, column=column, method=method, set=set, precision=precision, place=place)
    return _answered(dataset, answers, workers, cpus, batch_size)


def faults(dataset: ray.data.Dataset) -> ray.data.Dataset:
    """Returns the rows of an answered dataset that have no answer, each with the reason in ``error`` (or
    ``predicted_error``).

    Taking them computes the answers, unless the dataset was materialized before.
    """
    return dataset.map_batches(_faulty_rows, batch_format="pyarrow")


def _faulty_rows(table: Any) -> Any:
    # The last such column: the answer columns come after all others.
    name = next((name for name in reversed(table.column_names) if name in ("error", "predicted_error")), None)
    if name is None:
        raise ValueError(f"expected a dataset that was answered, with a column error, got {', '.join(table.column_names[:12])}")
    return table.filter(table[name].is_valid())


def write_parquet(
    dataset: ray.data.Dataset, path: str | os.PathLike[str], *, filesystem: Any = None, min_rows_per_file: int | None = None, **options: Any
) -> None:
    """Writes the rows to Parquet files in a folder, in their order.

    Ray's own ``Dataset.write_parquet`` may change the order of rows within a file, because
    ``pyarrow.dataset.write_dataset`` writes parts of a file from several threads. The names of the files sort in the
    order of their rows. Existing files in the folder stay, so writing twice duplicates the rows.

    Args:
        dataset: rows, answered or not.
        path: the folder, which is created if necessary; a URI for cloud storage.
        filesystem: a filesystem of pyarrow or fsspec; chosen from the path by default.
        min_rows_per_file: the minimum number of rows per file, except for the last. By default, files follow Ray's
            blocks.
        options: options of ``pyarrow.parquet.write_table`` (``compression="zstd"``, ``row_group_size=…``).
    """
    if not isinstance(dataset, ray.data.Dataset):
        raise TypeError(f"dataset: expected a dataset of Ray Data, got {type(dataset).__name__}")
    if min_rows_per_file is not None:
        check("min_rows_per_file", min_rows_per_file)
    # Rejects a wrong option before anything is written.
    pyarrow.parquet.write_table(pyarrow.table({}), pyarrow.BufferOutputStream(), **options)
    kept = dataset.context.execution_options
    before, kept.preserve_order = kept.preserve_order, True
    try:
        dataset.write_datasink(_Parquet(os.fspath(path), options, filesystem=filesystem, min_rows_per_file=min_rows_per_file))
    finally:
        kept.preserve_order = before


class _Parquet(BlockBasedFileDatasink):
    def __init__(self, path: str, options: dict[str, Any], **more: Any) -> None:
        super().__init__(path, file_format="parquet", **more)
        self._options = options

    def write_block_to_file(self, block: Any, file: Any) -> None:
        pyarrow.parquet.write_table(block.to_arrow(), file, **self._options)


class Worker:
    """An actor that has loaded the model."""

    def __init__(self, answers: arrow.Answers, cpus: int) -> None:
        _chumoku.set_num_threads(cpus)
        self._answers = answers.load()

    def __call__(self, table: Any) -> Any:
        return self._answers(table)


def _answered(
    dataset: ray.data.Dataset, answers: arrow.Answers, workers: int | None, cpus: int, batch_size: int
) -> ray.data.Dataset:
    if not isinstance(dataset, ray.data.Dataset):
        raise TypeError(f"dataset: expected a dataset of Ray Data, as ray.data.read_parquet(…) gives it, got {type(dataset).__name__}")
    _check(answers, dataset)
    cores = _cores()
    if 0 < cores < check("cpus", cpus) + 1:
        warnings.warn(
            f"the cluster has {cores:g} cores: where a worker takes {cpus}, none is left to read rows with, so it waits until there "
            "are more",
            stacklevel=3,
        )
    arguments = {"answers": answers, "cpus": cpus}
    answered = dataset.map_batches(
        Worker, batch_size=check("batch_size", batch_size), batch_format="pyarrow", fn_constructor_kwargs=arguments, **pool(workers, cpus, 1)
    )
    # Each dataset has its own context, which it inherits from its sources.
    answered.context.execution_options.preserve_order = True
    return answered


def _check(answers: arrow.Answers, dataset: ray.data.Dataset) -> None:
    """Checks the model, the arguments, and known columns here, before any worker starts."""
    # Loaded only for the check: the workers load their own.
    own = copy.copy(answers).load()
    schema = dataset.schema(fetch_if_missing=False)
    if schema is None:
        return
    if isinstance(schema.base_schema, pyarrow.Schema):
        own.schema(schema.base_schema)
    else:
        # With pandas blocks, the column types are known only after conversion to Arrow.
        own.check_names(list(schema.names))


def pool(workers: int | None, cpus: int, least: int | None = None) -> dict[str, Any]:
    """The actor pool. ``workers`` is its maximum size. Ray Data restarts lost actors without limit and repeats their
    work. The pool starts with as many actors as there is room for. If it took all cores at the start, none would be
    left to read with, and it would wait for rows forever."""
    if workers is None:
        many = ray.data.ActorPoolStrategy(min_size=1)
    else:
        many = ray.data.ActorPoolStrategy(min_size=least or check("workers", workers), max_size=check("workers", workers))
    return {"compute": many, "num_cpus": check("cpus", cpus)}


def _cores() -> float:
    """Returns the cores of the cluster; None if the cluster has not been started yet."""
    return sum(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]) if ray.is_initialized() else 0


def check(name: str, x: Any) -> int:
    """Checks for a whole number of at least 1."""
    if not isinstance(x, int) or isinstance(x, bool) or x < 1:
        raise ValueError(f"{name}: expected a whole number from 1 on, got {x!r}")
    return x
