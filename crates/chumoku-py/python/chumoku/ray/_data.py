"""Datasets of Ray Data, answered by actors that have read the model."""

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
    """What ``chumoku predict`` answers of each row: the dataset with the columns that :func:`chumoku.arrow.predict` adds.

    Nothing is done before somebody takes rows of the result or writes it (:func:`write_parquet`, or Ray's ``write_json`` and
    ``write_csv``). Rows keep their order; a worker that is lost is started again and its batches are answered once more, so that no row
    is missing or twice; and memory does not grow with the data. A row that cannot be answered stays where it is, with the reason in
    ``error``. What is wrong with the model, an argument, or a column of which Ray knows already is said at once.

    Args:
        dataset: rows with the texts in a column.
        model: the model's folder, which every worker must be able to read.
        column, top, abstain, threshold, precision_at_least, set, precision, place: as of :func:`chumoku.arrow.predict`.
        workers: at most so many actors, each of which reads the model; as many as the cluster has room for if absent. Reading and
            writing need a core of their own.
        cpus: cores of each.
        batch_size: rows that are answered at a time; no answer depends on it.

    Raises:
        ValueError: the model or an argument cannot be used, or a column is missing.
        TypeError: it is no dataset, or a column that should hold texts holds something else.
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
    """The vector of each row's text, as :func:`chumoku.arrow.embed` adds it; else as :func:`predict`."""
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
    """Why each row gets its answer, as :func:`chumoku.arrow.explain` adds it; else as :func:`predict`."""
    answers = arrow.explain(model, column=column, method=method, set=set, precision=precision, place=place)
    return _answered(dataset, answers, workers, cpus, batch_size)


def faults(dataset: ray.data.Dataset) -> ray.data.Dataset:
    """The rows of an answered dataset that have no answer, each with the reason in ``error`` (or ``predicted_error``).

    To take them computes the answers, if the dataset was not materialized before.
    """
    return dataset.map_batches(_faulty, batch_format="pyarrow")


def _faulty(table: Any) -> Any:
    # The last: that of the answers stands behind all.
    name = next((name for name in reversed(table.column_names) if name in ("error", "predicted_error")), None)
    if name is None:
        raise ValueError(f"expected a dataset that was answered, with a column error, got {', '.join(table.column_names[:12])}")
    return table.filter(table[name].is_valid())


def write_parquet(
    dataset: ray.data.Dataset, path: str | os.PathLike[str], *, filesystem: Any = None, min_rows_per_file: int | None = None, **options: Any
) -> None:
    """Writes the rows to Parquet files in a folder, in their order.

    Ray's own ``Dataset.write_parquet`` may write the rows of one file in another order, as the writer under it
    (``pyarrow.dataset.write_dataset`` with several threads) takes parts of a file as they come. The names of the files sort as their
    rows do. Files that are in the folder stay, so a folder that is written twice has the rows twice.

    Args:
        dataset: rows, answered or not.
        path: the folder, which is made if it is not there; a URI for a cloud's storage.
        filesystem: pyarrow's or fsspec's; found from the path if absent.
        min_rows_per_file: as many rows a file at least, but for the last. If absent, files follow Ray's blocks.
        options: of ``pyarrow.parquet.write_table`` (``compression="zstd"``, ``row_group_size=…``).
    """
    if not isinstance(dataset, ray.data.Dataset):
        raise TypeError(f"dataset: expected a dataset of Ray Data, got {type(dataset).__name__}")
    if min_rows_per_file is not None:
        check("min_rows_per_file", min_rows_per_file)
    # Nothing is written where an option is wrong.
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
    """An actor that has read the model."""

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
    # The context is that of this dataset and of those that it was made from, not of others.
    answered.context.execution_options.preserve_order = True
    return answered


def _check(answers: arrow.Answers, dataset: ray.data.Dataset) -> None:
    """Says here, before anything is begun, what every worker would say: of the model, the arguments, and of columns that are known."""
    # Not for long: the model is of use to workers alone.
    own = copy.copy(answers).load()
    schema = dataset.schema(fetch_if_missing=False)
    if schema is None:
        return
    if isinstance(schema.base_schema, pyarrow.Schema):
        own.schema(schema.base_schema)
    else:
        # Of pandas: what a column holds, Arrow tells when it has it.
        own.check_names(list(schema.names))


def pool(workers: int | None, cpus: int, least: int | None = None) -> dict[str, Any]:
    """Actors, at least so many if that is said. Ray Data starts them again as often as they are lost, and has them do again what they
    were at; it begins with as many as there is room for. A pool that began with all cores would leave none to read with, and wait for
    rows for ever."""
    if workers is None:
        many = ray.data.ActorPoolStrategy(min_size=1)
    else:
        many = ray.data.ActorPoolStrategy(min_size=least or check("workers", workers), max_size=check("workers", workers))
    return {"compute": many, "num_cpus": check("cpus", cpus)}


def _cores() -> float:
    """Those of the cluster; none where it has not been started yet."""
    return sum(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]) if ray.is_initialized() else 0


def check(name: str, x: Any) -> int:
    """A whole number from 1 on."""
    if not isinstance(x, int) or isinstance(x, bool) or x < 1:
        raise ValueError(f"{name}: expected a whole number from 1 on, got {x!r}")
    return x
