"""A helper of a run: a process that computes gradients, and adds pieces of them, for the leader (``_train.py``)."""

from __future__ import annotations

import os
import queue
import sys
import tempfile
import threading
import time
from typing import Any


def located(array: Any) -> tuple[int, str, list[int], list[int]]:
    """Where a flat array of 32-bit floats lies, as the module is told."""
    return array.__array_interface__["data"][0], "float32", [array.size], [1]


def digest(weights: Any) -> str:
    """SHA-256 of weights."""
    import hashlib

    return hashlib.sha256(memoryview(weights).cast("B")).hexdigest()


class Helper:
    """An actor: ``chumoku train`` on a thread of its own, as a helper, and what the leader asks of it."""

    def __init__(self, args: list[str], folder: str) -> None:
        self._args = args
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._begun = threading.Event()
        self._terms: str | None = None
        self._gradient: Any = None
        if os.path.isdir(folder):
            # Where the leader was started, so that names of files mean the same.
            os.chdir(folder)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        from chumoku._chumoku import run_in_crew

        self._said = tempfile.TemporaryFile()
        # What the command says is for nobody but whoever asks why it ended.
        sys.stdout.flush()
        sys.stderr.flush()
        for stream in (1, 2):
            os.dup2(self._said.fileno(), stream)
        with tempfile.TemporaryDirectory() as out:
            args = [*self._args, "--out", os.path.join(out, "model")]
            run_in_crew(["chumoku", "train", *args], self, False)
        self._begun.set()
        self._answers.put(("failed", self._last_words()))

    def _last_words(self) -> str:
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - 4000))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else "it ended without a word"

    # ---- What the module calls, on the thread that trains.

    def begin(self, terms: str) -> None:
        self._terms = terms
        self._begun.set()

    def next(self) -> Any:
        return self._asked.get()

    def done(self, loss: float, weight: float, tokens: int) -> None:
        self._answers.put(("learnt", (loss, weight, tokens)))

    def failed(self, problem: str) -> None:
        self._answers.put(("failed", problem))

    # ---- What the leader calls.

    def ready(self) -> tuple[str | None, str]:
        """Once the data are read: the terms that this process trains on; or None and why there are none."""
        self._begun.wait()
        return self._terms, "" if self._terms is not None else self._last_words()

    def node(self) -> str:
        """The machine that it runs on."""
        import ray

        return ray.get_runtime_context().get_node_id()

    def learn(
        self, weights: Any, hashed: str | None, at: tuple[int, int, int], part: int, pieces: list[int]
    ) -> Any:
        """Learns from a part of a batch: how it went, and the gradient in pieces that end at these numbers."""
        import numpy

        none = [None] * len(pieces)
        if hashed is not None and digest(weights) != hashed:
            return (("failed", "the weights that came are not those that the leader has"), *none)
        began = time.perf_counter()
        # Freed only after it was sent: each part has memory of its own.
        gradient = numpy.empty(weights.size, dtype=numpy.float32)
        self._asked.put(((weights, located(weights)), at, part, (gradient, located(gradient))))
        kind, found = self._answers.get()
        if kind != "learnt":
            return ((kind, found), *none)
        starts = [0, *pieces[:-1]]
        cut = [gradient[start:stop] for start, stop in zip(starts, pieces)]
        return ((kind, (found, time.perf_counter() - began)), *cut)

    def add(self, learnt: list[Any], *gradients: Any) -> Any:
        """The mean of the same piece of the gradient of each part."""
        import numpy
        from chumoku._chumoku import joined_gradients

        added = numpy.empty(gradients[0].size, dtype=numpy.float32)
        joined_gradients(learnt, [located(gradient) for gradient in gradients], located(added))
        return added

    def end(self) -> None:
        """Lets the command end."""
        self._asked.put(None)
