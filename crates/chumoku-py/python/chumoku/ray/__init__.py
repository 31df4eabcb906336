"""Chumoku on a Ray cluster: prediction for large data sets, and training on several machines.

>>> import chumoku.ray, ray
>>> rows = ray.data.read_parquet("reviews/", include_paths=True)                        # doctest: +SKIP
>>> answers = chumoku.ray.predict(rows, "model", column="review")                       # doctest: +SKIP
>>> chumoku.ray.write_parquet(answers, "answers/")                                      # doctest: +SKIP

:func:`predict`, :func:`embed` and :func:`explain` answer the rows of a Ray Data dataset in order. :func:`faults`
returns the rows that could not be answered, and :func:`write_parquet` writes rows in order. ``train`` trains on several
machines. ``python -m chumoku.ray predict MODEL DATA --out FILE --workers N`` writes the same output as ``chumoku
predict``, and ``python -m chumoku.ray train`` trains as the command does.
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
