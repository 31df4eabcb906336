"""Chumoku on a cluster, with Ray: data that one machine would be long at, and training on several.

>>> import chumoku.ray, ray
>>> rows = ray.data.read_parquet("reviews/", include_paths=True)                        # doctest: +SKIP
>>> answers = chumoku.ray.predict(rows, "model", column="review")                       # doctest: +SKIP
>>> chumoku.ray.write_parquet(answers, "answers/")                                      # doctest: +SKIP

:func:`predict`, :func:`embed` and :func:`explain` answer the rows of a dataset of Ray Data, in the order of its rows, :func:`faults` gives
those that could not be answered, and :func:`write_parquet` writes rows in their order; ``train`` trains on several machines. ``python -m
chumoku.ray predict MODEL DATA --out FILE --workers N`` writes what ``chumoku predict`` would have written, and ``python -m chumoku.ray
train`` trains as the command does.
"""

from __future__ import annotations

try:
    import ray.data  # noqa: F401
except ImportError as error:
    raise ImportError(f'chumoku.ray needs Ray: pip install "ray[data]" pyarrow aiohttp ({error})') from error

from typing import Any

from ._data import embed, explain, faults, predict, write_parquet

__all__ = ["embed", "explain", "faults", "predict", "train", "write_parquet"]


def __getattr__(name: str) -> Any:
    if name == "train":
        from ._train import train

        globals()[name] = train
        return train
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
