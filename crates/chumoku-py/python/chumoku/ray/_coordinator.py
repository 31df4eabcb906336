"""The coordinator of a distributed run. It assigns micro-batches to workers, sums their gradients in order, and
replaces lost workers."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import Any, NoReturn

from ._messages import Pick
from ._worker import TrainWorker, digest, memory_of

# From the least to the most capable.
INSTRUCTION_SETS = ("scalar", "avx2", "avx512", "avx512bf16", "amx")

# Interval, in steps, at which coordinator and workers compare hashes of the weights.
HASH_INTERVAL = 50

# Number of consecutive workers that may die before finishing a micro-batch. More are not a coincidence.
MAX_FAILURES_IN_A_ROW = 5


class _WorkerHandle:
    """A worker from the coordinator's view."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number = number
        self.actor = actor
        self.ready: Any = actor.ready.options(concurrency_group="waiting").remote()
        self.node: str | None = None
        self.has_joined = False
        self.has_trained = False
        self.busy = 0.0


class _Lost(Exception):
    """A gradient was lost with its machine."""


class Coordinator:
    """The methods that the native module calls on the training thread."""

    def __init__(
        self, worker_args: list[str], workers: int, cpus: float, max_failures: int, pick: Pick, environment: dict[str, str]
    ) -> None:
        self._args = worker_args
        self._wanted = workers
        self._cpus = cpus
        self._max_failures = max_failures
        self._pick = pick
        self._environment = environment
        self._started = 0
        self._failures = 0
        self._failures_in_a_row = 0
        self._workers: list[_WorkerHandle] = []
        self._messages: list[str] = []
        self._terms: dict[str, Any] = {}
        self._weights: Any = None
        self._sum: Any = None
        self._reported_counts: set[int] = set()
        self.seconds = {"steps": 0.0, "training": 0.0}
        self.steps = 0

    # ---- Worker management.

    def _start_worker(self) -> None:
        import ray

        remote: Any = ray.remote
        actor = remote(
            num_cpus=self._cpus,
            max_restarts=0,
            concurrency_groups={"waiting": 1, "training": 1, "adding": 1},
            runtime_env={"env_vars": self._environment},
        )(TrainWorker)
        made = actor.remote(self._args, os.getcwd())
        self._started += 1
        self._workers.append(_WorkerHandle(self._started, made))

    def start(self) -> None:
        """Starts workers, which read the data while this process does."""
        for _ in range(self._wanted):
            self._start_worker()

    def _active_workers(self) -> list[_WorkerHandle]:
        return [worker for worker in self._workers if worker.has_joined]

    def _starting_workers(self) -> list[_WorkerHandle]:
        return [worker for worker in self._workers if not worker.has_joined]

    def _replace(self, worker: _WorkerHandle, why: str) -> None:
        """Replaces a dead worker as soon as the cluster has room."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._failures += 1
        self._failures_in_a_row += not worker.has_trained
        left = len(self._active_workers())
        number, died, in_a_row = worker.number, self._failures, self._failures_in_a_row
        self._report(f"worker {number} is gone ({why}): {left} left", f"ワーカー {number} が失われました（{why}）。残り {left}")
        if 0 <= self._max_failures < died:
            self._fail(
                f"{died} workers died, more than --max-failures {self._max_failures} allows; the last was worker {number} ({why}); "
                "continue with --resume",
                f"ワーカーの異常終了が {died} 回になり、--max-failures {self._max_failures} を超えました。最後はワーカー {number}（{why}）です。"
                "--resume で再開できます",
            )
        if in_a_row >= MAX_FAILURES_IN_A_ROW and not self._active_workers():
            self._fail(
                f"{in_a_row} workers in a row died before finishing a micro-batch, the last one with: {why}; check the logs of the "
                "cluster and the memory of its machines",
                f"ワーカーが {in_a_row} 回続けて、マイクロバッチを 1 つも終えずに異常終了しました。最後の理由: {why}。クラスターのログと"
                "マシンのメモリーを確認してください",
            )
        self._start_worker()

    def _report(self, en: str, ja: str) -> None:
        self._messages.append(self._pick(en, ja))

    def _fail(self, en: str, ja: str) -> NoReturn:
        raise RuntimeError(self._pick(en, ja))

    def _reject(self, worker: _WorkerHandle, problem: str) -> None:
        import ray

        self._workers.remove(worker)
        ray.kill(worker.actor)
        self._report(f"worker {worker.number} is rejected: {problem}", f"ワーカー {worker.number} は参加できません: {problem}")
        if not self._workers:
            self._fail(f"no worker is left: {problem}", f"ワーカーが残っていません: {problem}")

    def _admit_workers(self, timeout: float) -> None:
        """Adds workers that have read the data, after waiting up to a timeout for one of them."""
        import ray
        from ray.exceptions import RayActorError

        coming = {worker.ready: worker for worker in self._starting_workers()}
        if not coming:
            return
        arrived, _ = ray.wait(list(coming), num_returns=1, timeout=timeout)
        for ready in arrived:
            worker = coming[ready]
            try:
                terms, why = ray.get(ready)
                if terms is None:
                    self._fail(f"worker {worker.number} could not start: {why}", f"ワーカー {worker.number} を開始できません: {why}")
                worker.node = ray.get(worker.actor.node.remote())
            except RayActorError as error:
                self._replace(worker, _reason(error))
                continue
            problem = difference(self._terms, json.loads(terms), self._pick)
            if problem is not None:
                self._reject(worker, problem)
                continue
            worker.has_joined = True
            there = f"{len(self._active_workers())} of {self._wanted}", f"{self._wanted} のうち {len(self._active_workers())}"
            self._report(f"worker {worker.number} joins: {there[0]}", f"ワーカー {worker.number} が加わりました: {there[1]}")

    def begin(self, terms: str) -> None:
        """Waits for the first workers: for all that fit into the cluster, if they are ready within a minute."""
        import ray

        self._terms = json.loads(terms)
        self._weights = None
        while not self._active_workers():
            self._admit_workers(0.5)
        # Workers that do not fit into the cluster may start hours later.
        nodes = [node for node in ray.nodes() if node["Alive"]]
        capacity = sum(int(node["Resources"].get("CPU", 0) // self._cpus) for node in nodes)
        until = time.monotonic() + 60
        while len(self._active_workers()) < min(self._wanted, capacity) and self._starting_workers() and time.monotonic() < until:
            self._admit_workers(0.5)

    # ---- A training step.

    def weights_buffer(self, numbers: int) -> Any:
        """Returns the memory for the weights."""
        import numpy

        if self._weights is None or self._weights.size != numbers:
            self._weights = numpy.empty(numbers, dtype=numpy.float32)
            self._sum = numpy.empty(numbers, dtype=numpy.float32)
        return self._weights, memory_of(self._weights)

    def train_step(self, epoch: int, batch: int, step: int, parts: int) -> Any:
        """Distributes a batch to the workers."""
        import ray

        began = time.perf_counter()
        for worker in self._workers:
            worker.busy = 0.0
        self._admit_workers(0)
        if parts < len(self._active_workers()) and parts not in self._reported_counts and self.steps == 0:
            self._reported_counts.add(parts)
            idle = len(self._active_workers()) - parts
            self._report(
                f"a batch has {parts} micro-batch{'es' * (parts > 1)}, so {idle} of the workers are idle; --parts gives more, but "
                "changes the result",
                f"バッチは {parts} 個のマイクロバッチに分かれるため、ワーカー {idle} 個は待機します。--parts で増やせますが、結果が変わります",
            )
        weights = ray.put(self._weights)
        hashed = digest(self._weights) if step % HASH_INTERVAL == 0 or self.steps == 0 else None
        while True:
            try:
                whole = self._try_step(weights, hashed, (epoch, batch, step), parts)
                break
            except _Lost:
                continue
        self.steps += 1
        self.seconds["steps"] += time.perf_counter() - began
        self.seconds["training"] += max(worker.busy for worker in self._workers)
        return self._sum, memory_of(self._sum), whole

    def _try_step(self, weights: Any, hashed: str | None, at: tuple[int, int, int], parts: int) -> Any:
        import ray
        from ray.exceptions import ObjectLostError, RayActorError

        owners = self._gradient_owners()
        size = self._weights.size
        ends = [size * (i + 1) // max(1, len(owners)) for i in range(max(1, len(owners)))]
        to_do = deque(range(parts))
        running: dict[Any, tuple[_WorkerHandle, int, Any]] = {}
        found: dict[int, tuple[Any, Any]] = {}
        while len(found) < parts:
            at_work = {worker for worker, _, _ in running.values()}
            for worker in self._active_workers():
                if to_do and worker not in at_work:
                    part = to_do.popleft()
                    call = worker.actor.train_micro_batch.options(num_returns=1 + len(ends), concurrency_group="training")
                    refs = call.remote(weights, hashed, at, part, ends)
                    running[refs[0]] = (worker, part, refs[1:])
            if not running:
                # All workers are gone: wait for a new one.
                self._admit_workers(0.5)
                continue
            done, _ = ray.wait(list(running), num_returns=1, timeout=0.5)
            self._admit_workers(0)
            for ref in done:
                worker, part, pieces = running.pop(ref)
                try:
                    kind, answer = ray.get(ref)
                except RayActorError as error:
                    to_do.appendleft(part)
                    self._replace(worker, _reason(error))
                    continue
                except ObjectLostError:
                    to_do.appendleft(part)
                    continue
                if kind != "trained":
                    self._fail(f"worker {worker.number}: {answer}", f"ワーカー {worker.number}: {answer}")
                output, seconds = answer
                worker.busy += seconds
                worker.has_trained, self._failures_in_a_row = True, 0
                found[part] = (output, pieces)
        outputs = [found[part][0] for part in range(parts)]
        pieces = [found[part][1] for part in range(parts)]
        return self._combine(owners, ends, outputs, pieces)

    def _gradient_owners(self) -> list[_WorkerHandle]:
        """Chooses who sums: each worker a slice of the parameters, or the coordinator if all gradients are on its
        machine."""
        import ray

        here = ray.get_runtime_context().get_node_id()
        helping = self._active_workers()
        return [] if all(worker.node == here for worker in helping) else helping

    def _combine(self, owners: list[_WorkerHandle], ends: list[int], outputs: list[Any], pieces: list[Any]) -> Any:
        """Writes the mean gradient to ``_sum`` and returns the output of the whole batch."""
        import ray
        from chumoku._chumoku import joined_gradients
        from ray.exceptions import ObjectLostError, RayActorError

        starts = [0, *ends[:-1]]
        try:
            if owners and len(outputs) > 1:
                calls = [
                    owner.actor.add.options(concurrency_group="adding").remote(outputs, *[part[i] for part in pieces])
                    for i, owner in enumerate(owners)
                ]
                for start, stop, owner, call in zip(starts, ends, owners, calls):
                    try:
                        self._sum[start:stop] = ray.get(call)
                    except RayActorError as error:
                        self._replace(owner, _reason(error))
                        raise _Lost from None
                return joined_gradients(outputs, [], memory_of(self._sum[:0]))
            for i, (start, stop) in enumerate(zip(starts, ends)):
                gradients = ray.get([part[i] for part in pieces])
                whole = joined_gradients(outputs, [memory_of(g) for g in gradients], memory_of(self._sum[start:stop]))
            return whole
        except ObjectLostError:
            raise _Lost from None

    def take_messages(self) -> list[str]:
        """Returns the messages since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def end(self) -> None:
        """Releases the workers."""
        import ray

        for worker in self._workers:
            ray.kill(worker.actor)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__


def difference(ours: dict[str, Any], theirs: dict[str, Any], pick: Pick) -> str | None:
    """Describes the difference between two processes' terms."""
    least = weaker(ours["instruction_set"], theirs["instruction_set"])
    for key, name, advice in (
        ("version", ("Chumoku", "Chumoku のバージョン"), ("install the same version on all machines", "すべてのマシンに同じバージョンを入れてください")),
        (
            "instruction_set",
            ("the instruction set", "命令セット"),
            (f"set CHUMOKU_ISA={least} before starting", f"CHUMOKU_ISA={least} を設定してから始めてください"),
        ),
        ("precision", ("precision", "精度"), ("give --precision", "--precision を指定してください")),
    ):
        if ours[key] != theirs[key]:
            there, here = theirs[key], ours[key]
            return pick(
                f"{name[0]} is {there} on the worker and {here} here: {advice[0]}",
                f"{name[1]}がワーカーでは {there}、ここでは {here} です。{advice[1]}",
            )
    if ours != theirs:
        return pick(
            "it read different data or --from files: every machine must read the same files under the same names",
            "読み込んだデータか --from のファイルが異なります。すべてのマシンが、同じ名前で同じものを読めるようにしてください",
        )
    return None


def weaker(one: str, other: str) -> str:
    return min(one, other, key=lambda name: INSTRUCTION_SETS.index(name) if name in INSTRUCTION_SETS else 0)
