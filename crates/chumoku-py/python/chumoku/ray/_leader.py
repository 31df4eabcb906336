"""Who leads a run: gives parts of batches to helpers, adds what comes back in the order of the parts, replaces those that die."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import Any, NoReturn

from ._helper import Helper, digest, located
from ._words import Pick

# From the weakest to the strongest.
INSTRUCTION_SETS = ("scalar", "avx2", "avx512", "avx512bf16", "amx")

# How often weights are hashed by the leader and by those who get them, in steps.
HASHED_EVERY = 50

# Helpers that die one after another, none of which had learnt from a part: no accident.
HOPELESS = 5


class _Worker:
    """A helper, as the leader sees it."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number = number
        self.actor = actor
        self.ready: Any = actor.ready.options(concurrency_group="waiting").remote()
        self.node: str | None = None
        self.is_in = False
        self.has_learnt = False
        self.busy = 0.0


class _Lost(Exception):
    """A gradient is gone with the machine that had it."""


class Leader:
    """What the module calls on the thread that trains."""

    def __init__(
        self, helpers: list[str], workers: int, cpus: float, max_failures: int, pick: Pick, environment: dict[str, str]
    ) -> None:
        self._args = helpers
        self._wanted = workers
        self._cpus = cpus
        self._max_failures = max_failures
        self._pick = pick
        self._environment = environment
        self._made = 0
        self._failures = 0
        self._in_a_row = 0
        self._workers: list[_Worker] = []
        self._news: list[str] = []
        self._terms: dict[str, Any] = {}
        self._room: Any = None
        self._sum: Any = None
        self._said_parts: set[int] = set()
        self.seconds = {"steps": 0.0, "learning": 0.0}
        self.steps = 0

    # ---- Who helps.

    def _make(self) -> None:
        import ray

        remote: Any = ray.remote
        actor = remote(
            num_cpus=self._cpus,
            max_restarts=0,
            concurrency_groups={"waiting": 1, "learning": 1, "adding": 1},
            runtime_env={"env_vars": self._environment},
        )(Helper)
        made = actor.remote(self._args, os.getcwd())
        self._made += 1
        self._workers.append(_Worker(self._made, made))

    def start(self) -> None:
        """Has helpers started, which read the data while this process does."""
        for _ in range(self._wanted):
            self._make()

    def _helping(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.is_in]

    def _coming(self) -> list[_Worker]:
        return [worker for worker in self._workers if not worker.is_in]

    def _lose(self, worker: _Worker, why: str) -> None:
        """A helper has died: another is started, as soon as there is room for it."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._failures += 1
        self._in_a_row += not worker.has_learnt
        left = len(self._helping())
        number, died, in_a_row = worker.number, self._failures, self._in_a_row
        self._say(f"helper {number} is gone ({why}): {left} left", f"ヘルパー {number} が失われました（{why}）。残り {left}")
        if 0 <= self._max_failures < died:
            self._fail(
                f"{died} helpers have died, more than --max-failures {self._max_failures} allows; the last one, helper {number}: {why}; "
                "go on with --resume",
                f"ヘルパーが {died} 回異常終了し、--max-failures {self._max_failures} を超えました。最後はヘルパー {number}: {why}。"
                "--resume で続きから再開できます",
            )
        if in_a_row >= HOPELESS and not self._helping():
            self._fail(
                f"{in_a_row} helpers died one after another before any had learnt from a part, the last one ({why}); see the logs of the "
                "cluster, and whether a machine has the memory for it",
                f"ヘルパーが {in_a_row} 回続けて、何も学習しないうちに終了しました。最後の理由: {why}。クラスターのログと、マシンのメモリーを"
                "確認してください",
            )
        self._make()

    def _say(self, en: str, ja: str) -> None:
        self._news.append(self._pick(en, ja))

    def _fail(self, en: str, ja: str) -> NoReturn:
        raise RuntimeError(self._pick(en, ja))

    def _refuse(self, worker: _Worker, problem: str) -> None:
        import ray

        self._workers.remove(worker)
        ray.kill(worker.actor)
        self._say(f"helper {worker.number} is refused: {problem}", f"ヘルパー {worker.number} は参加できません: {problem}")
        if not self._workers:
            self._fail(f"no helper is left: {problem}", f"ヘルパーが残っていません: {problem}")

    def _tend(self, timeout: float) -> None:
        """Lets in those who have read the data, after waiting for one of them for a time."""
        import ray
        from ray.exceptions import RayActorError

        coming = {worker.ready: worker for worker in self._coming()}
        if not coming:
            return
        arrived, _ = ray.wait(list(coming), num_returns=1, timeout=timeout)
        for ready in arrived:
            worker = coming[ready]
            try:
                terms, why = ray.get(ready)
                if terms is None:
                    self._fail(f"helper {worker.number} could not begin: {why}", f"ヘルパー {worker.number} を始められません: {why}")
                worker.node = ray.get(worker.actor.node.remote())
            except RayActorError as error:
                self._lose(worker, _why(error))
                continue
            problem = difference(self._terms, json.loads(terms), self._pick)
            if problem is not None:
                self._refuse(worker, problem)
                continue
            worker.is_in = True
            there = f"{len(self._helping())} of {self._wanted}", f"{self._wanted} のうち {len(self._helping())}"
            self._say(f"helper {worker.number} joins: {there[0]}", f"ヘルパー {worker.number} が加わりました: {there[1]}")

    def begin(self, terms: str) -> None:
        """Waits for the first helpers: for all that have a place, if they come within a minute."""
        import ray

        self._terms = json.loads(terms)
        self._room = None
        while not self._helping():
            self._tend(0.5)
        # Those that the cluster has no room for may come hours later.
        nodes = [node for node in ray.nodes() if node["Alive"]]
        room = sum(int(node["Resources"].get("CPU", 0) // self._cpus) for node in nodes)
        until = time.monotonic() + 60
        while len(self._helping()) < min(self._wanted, room) and self._coming() and time.monotonic() < until:
            self._tend(0.5)

    # ---- A step.

    def room(self, numbers: int) -> Any:
        """Where weights are written."""
        import numpy

        if self._room is None or self._room.size != numbers:
            self._room = numpy.empty(numbers, dtype=numpy.float32)
            self._sum = numpy.empty(numbers, dtype=numpy.float32)
        return self._room, located(self._room)

    def learn(self, epoch: int, batch: int, step: int, parts: int) -> Any:
        """Has a batch learnt from."""
        import ray

        began = time.perf_counter()
        for worker in self._workers:
            worker.busy = 0.0
        self._tend(0)
        if parts < len(self._helping()) and parts not in self._said_parts and self.steps == 0:
            self._said_parts.add(parts)
            idle = len(self._helping()) - parts
            self._say(
                f"a batch has {parts} part{'s' * (parts > 1)}, so {idle} of the helpers have nothing to do; --parts gives "
                "more, and is another run",
                f"バッチは {parts} 個に分かれるので、ヘルパー {idle} 個には仕事がありません。--parts で増やせますが、別の実行になります",
            )
        weights = ray.put(self._room)
        hashed = digest(self._room) if step % HASHED_EVERY == 0 or self.steps == 0 else None
        while True:
            try:
                whole = self._once(weights, hashed, (epoch, batch, step), parts)
                break
            except _Lost:
                continue
        self.steps += 1
        self.seconds["steps"] += time.perf_counter() - began
        self.seconds["learning"] += max(worker.busy for worker in self._workers)
        return self._sum, located(self._sum), whole

    def _once(self, weights: Any, hashed: str | None, at: tuple[int, int, int], parts: int) -> Any:
        import ray
        from ray.exceptions import ObjectLostError, RayActorError

        owners = self._owners()
        size = self._room.size
        ends = [size * (i + 1) // max(1, len(owners)) for i in range(max(1, len(owners)))]
        to_do = deque(range(parts))
        running: dict[Any, tuple[_Worker, int, Any]] = {}
        found: dict[int, tuple[Any, Any]] = {}
        while len(found) < parts:
            at_work = {worker for worker, _, _ in running.values()}
            for worker in self._helping():
                if to_do and worker not in at_work:
                    part = to_do.popleft()
                    call = worker.actor.learn.options(num_returns=1 + len(ends), concurrency_group="learning")
                    refs = call.remote(weights, hashed, at, part, ends)
                    running[refs[0]] = (worker, part, refs[1:])
            if not running:
                # All are gone: wait for one that comes.
                self._tend(0.5)
                continue
            done, _ = ray.wait(list(running), num_returns=1, timeout=0.5)
            self._tend(0)
            for ref in done:
                worker, part, pieces = running.pop(ref)
                try:
                    kind, answer = ray.get(ref)
                except RayActorError as error:
                    to_do.appendleft(part)
                    self._lose(worker, _why(error))
                    continue
                except ObjectLostError:
                    to_do.appendleft(part)
                    continue
                if kind != "learnt":
                    self._fail(f"helper {worker.number}: {answer}", f"ヘルパー {worker.number}: {answer}")
                learnt, seconds = answer
                worker.busy += seconds
                worker.has_learnt, self._in_a_row = True, 0
                found[part] = (learnt, pieces)
        learnt = [found[part][0] for part in range(parts)]
        pieces = [found[part][1] for part in range(parts)]
        return self._added(owners, ends, learnt, pieces)

    def _owners(self) -> list[_Worker]:
        """Who adds: the helpers, each a piece of the parameters; nobody but the leader where it has all gradients at hand."""
        import ray

        here = ray.get_runtime_context().get_node_id()
        helping = self._helping()
        return [] if all(worker.node == here for worker in helping) else helping

    def _added(self, owners: list[_Worker], ends: list[int], learnt: list[Any], pieces: list[Any]) -> Any:
        """The mean of the gradients, written to ``_sum``, and what was learnt from all parts."""
        import ray
        from chumoku._chumoku import joined_gradients
        from ray.exceptions import ObjectLostError, RayActorError

        starts = [0, *ends[:-1]]
        try:
            if owners and len(learnt) > 1:
                calls = [
                    owner.actor.add.options(concurrency_group="adding").remote(learnt, *[part[i] for part in pieces])
                    for i, owner in enumerate(owners)
                ]
                for start, stop, owner, call in zip(starts, ends, owners, calls):
                    try:
                        self._sum[start:stop] = ray.get(call)
                    except RayActorError as error:
                        self._lose(owner, _why(error))
                        raise _Lost from None
                return joined_gradients(learnt, [], located(self._sum[:0]))
            for i, (start, stop) in enumerate(zip(starts, ends)):
                gradients = ray.get([part[i] for part in pieces])
                whole = joined_gradients(learnt, [located(g) for g in gradients], located(self._sum[start:stop]))
            return whole
        except ObjectLostError:
            raise _Lost from None

    def news(self) -> list[str]:
        """What has happened."""
        news, self._news = self._news, []
        return news

    def end(self) -> None:
        """Lets the helpers go."""
        import ray

        for worker in self._workers:
            ray.kill(worker.actor)


def _why(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__


def difference(ours: dict[str, Any], theirs: dict[str, Any], pick: Pick) -> str | None:
    """What two processes do not agree on."""
    least = weaker(ours["instruction_set"], theirs["instruction_set"])
    for key, name, advice in (
        ("version", ("Chumoku", "Chumoku のバージョン"), ("install the same on all machines", "すべてのマシンに同じものを入れてください")),
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
                f"{name[0]} is {there} there and {here} here: {advice[0]}",
                f"{name[1]}がヘルパーでは {there}、ここでは {here} です。{advice[1]}",
            )
    if ours != theirs:
        return pick(
            "it has read other data, or other files of --from: every machine must read the same, by the same name",
            "読み込んだデータか --from のファイルが異なります。すべてのマシンが、同じ名前で同じものを読めるようにしてください",
        )
    return None


def weaker(one: str, other: str) -> str:
    return min(one, other, key=lambda name: INSTRUCTION_SETS.index(name) if name in INSTRUCTION_SETS else 0)
