"""A worker of a distributed run: a process that computes gradients, and sums slices of them, for the coordinator
(``_train.py``)."""

from __future__ import annotations

import os
import queue
import sys
import tempfile
import threading
import time
from typing import Any


def memory_of(array: Any) -> tuple[int, str, list[int], list[int]]:
    """Describes a flat float32 array for the native module."""
    return array.__array_interface__["data"][0], "float32", [array.size], [1]


def digest(weights: Any) -> str:
    """The SHA-256 hash of weights."""
    import hashlib

    return hashlib.sha256(memoryview(weights).cast("B")).hexdigest()


class TrainWorker:
    """An actor that runs ``chumoku train`` as a worker on a separate thread, and serves the coordinator's requests."""

    def __init__(self, args: list[str], folder: str) -> None:
        self._args = args
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._started = threading.Event()
        self._terms: str | None = None
        self._gradient: Any = None
        if os.path.isdir(folder):
            # The coordinator's working directory, so that file names mean the same.
            os.chdir(folder)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        from chumoku._chumoku import run_in_worker_group

        self._log = tempfile.TemporaryFile()
        # The command's output matters only if it ends early.
        sys.stdout.flush()
        sys.stderr.flush()
        for stream in (1, 2):
            os.dup2(self._log.fileno(), stream)
        with tempfile.TemporaryDirectory() as out:
            args = [*self._args, "--out", os.path.join(out, "model")]
            run_in_worker_group(["chumoku", "train", *args], self, False)
        self._started.set()
        self._results.put(("failed", self._last_words()))

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else "it ended without a message"

    # ---- Methods that the native module calls, on the training thread.

    def begin(self, terms: str) -> None:
        self._terms = terms
        self._started.set()

    def next(self) -> Any:
        return self._requests.get()

    def done(self, loss: float, weight: float, tokens: int) -> None:
        self._results.put(("trained", (loss, weight, tokens)))

    def failed(self, problem: str) -> None:
        self._results.put(("failed", problem))

    # ---- Methods that the coordinator calls.

    def ready(self) -> tuple[str | None, str]:
        """Waits until the data is read. Returns the terms of the training, or None and the reason for the failure."""
        self._started.wait()
        return self._terms, "" if self._terms is not None else self._last_words()

    def node(self) -> str:
        """The machine of this worker."""
        import ray

        return ray.get_runtime_context().get_node_id()

    def train_micro_batch(
        self, weights: Any, hashed: str | None, at: tuple[int, int, int], part: int, pieces: list[int]
    ) -> Any:
        """Trains on a micro-batch. Returns its output, and the gradient in slices that end at the given indices."""
        import numpy

        none = [None] * len(pieces)
        if hashed is not None and digest(weights) != hashed:
            return (("failed", "the received weights differ from the coordinator's"), *none)
        began = time.perf_counter()
        # Ray frees it only after sending, so each micro-batch needs its own memory.
        gradient = numpy.empty(weights.size, dtype=numpy.float32)
        self._requests.put(((weights, memory_of(weights)), at, part, (gradient, memory_of(gradient))))
        kind, found = self._results.get()
        if kind != "trained":
            return ((kind, found), *none)
        starts = [0, *pieces[:-1]]
        cut = [gradient[start:stop] for start, stop in zip(starts, pieces)]
        return ((kind, (found, time.perf_counter() - began)), *cut)

    def add(self, outputs: list[Any], *gradients: Any) -> Any:
        """Returns the mean of the same slice of each micro-batch's gradient."""
        import numpy
        from chumoku._chumoku import joined_gradients

        added = numpy.empty(gradients[0].size, dtype=numpy.float32)
        joined_gradients(outputs, [memory_of(gradient) for gradient in gradients], memory_of(added))
        return added

    def end(self) -> None:
        """Lets the command finish."""
        self._requests.put(None)
