"""Training on a cluster: the steps of a run shared by processes on any of its machines.

The leader is this process. It runs ``chumoku train`` as it would run alone, but has the gradients of a batch's parts computed by
helpers (``_helper.py``), which need nothing but the weights, and adds them in the order of the parts. A helper that dies costs the
parts that it was at; one that comes gets parts from the next step on. The model is the same bytes whoever helps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from typing import Any

from ._helper import Helper, digest, located

# From the weakest to the strongest.
INSTRUCTION_SETS = ("scalar", "avx2", "avx512", "avx512bf16", "amx")

# How often weights are hashed by the leader and by those who get them, in steps.
HASHED_EVERY = 50

# Helpers that die one after another, none of which had learnt from a part: no accident.
HOPELESS = 5

# Flags of the command that are the leader's alone, with how many values they have.
OF_LEADER = {
    "--out": 1,
    "--threads": 1,
    "--watch": 1,
    "--resume": 0,
    "--force": 0,
    "--json": 0,
    "--profile": 0,
}


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
        self, helpers: list[str], workers: int, cpus: float, max_failures: int, environment: dict[str, str]
    ) -> None:
        self._args = helpers
        self._wanted = workers
        self._cpus = cpus
        self._max_failures = max_failures
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
        self._news.append(f"helper {worker.number} is gone ({why}): {left} left")
        if 0 <= self._max_failures < self._failures:
            raise RuntimeError(
                f"{self._failures} helpers have died, more than --max-failures {self._max_failures} allows; the last one, helper "
                f"{worker.number}: {why}; go on with --resume"
            )
        if self._in_a_row >= HOPELESS and not self._helping():
            raise RuntimeError(
                f"{self._in_a_row} helpers died one after another before any had learnt from a part, the last one "
                f"({why}); see the logs of the cluster, and whether a machine has the memory for it"
            )
        self._make()

    def _refuse(self, worker: _Worker, problem: str) -> None:
        import ray

        self._workers.remove(worker)
        ray.kill(worker.actor)
        self._news.append(f"helper {worker.number} is refused: {problem}")
        if not self._workers:
            raise RuntimeError(f"no helper is left: {problem}")

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
                    raise RuntimeError(f"helper {worker.number} could not begin: {why}")
                worker.node = ray.get(worker.actor.node.remote())
            except RayActorError as error:
                self._lose(worker, _why(error))
                continue
            problem = _difference(self._terms, json.loads(terms))
            if problem is not None:
                self._refuse(worker, problem)
                continue
            worker.is_in = True
            self._news.append(f"helper {worker.number} joins: {len(self._helping())} of {self._wanted}")

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
            self._news.append(
                f"a batch has {parts} part{'s' * (parts > 1)}, so {idle} of the helpers have nothing to do; --parts gives "
                "more, and is another run"
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
                    raise RuntimeError(f"helper {worker.number}: {answer}")
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


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """What two processes do not agree on."""
    for key, name in (("version", "Chumoku"), ("instruction_set", "the instruction set"), ("precision", "precision")):
        if ours[key] != theirs[key]:
            advice = {
                "version": "install the same on all machines",
                "instruction_set": f"set CHUMOKU_ISA={_weaker(ours[key], theirs[key])} before starting",
                "precision": "give --precision",
            }[key]
            return f"{name} is {theirs[key]} there and {ours[key]} here: {advice}"
    if ours != theirs:
        return "it has read other data, or other files of --from: every machine must read the same, by the same name"
    return None


def _weaker(one: str, other: str) -> str:
    return min(one, other, key=lambda name: INSTRUCTION_SETS.index(name) if name in INSTRUCTION_SETS else 0)


def _instruction_set() -> str:
    from chumoku._chumoku import instruction_set

    return instruction_set()


def _common_instruction_set() -> str | None:
    """The instruction set that all machines have; None where this one has no more."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0)(_instruction_set)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    asked = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)).remote()
        for node in nodes
    ]
    found = ray.get(asked)
    # Asked in a process of its own: this one may still be told to use less.
    code = "from chumoku._chumoku import instruction_set; print(instruction_set())"
    here = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    weakest = here
    for name in found:
        weakest = _weaker(weakest, name)
    return weakest if weakest != here or any(name != here for name in found) else None


def _of_helpers(args: list[str], cpus: int) -> list[str]:
    """The arguments of the command without those that are the leader's."""
    kept: list[str] = []
    words = iter(args)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in OF_LEADER:
            if OF_LEADER[name] and not equals:
                next(words, None)
            continue
        kept.append(word)
    return [*kept, "--threads", str(cpus)]


def _refuse_alone(args: list[str]) -> None:
    """Refuses what has no steps that could be shared."""
    alone = {
        "--tune": "a search trains many models: run it in one process, then train with the --settings that it prints",
        "--folds": "cross-validation trains many models: run it in one process",
        "--unlabelled": "pretrain with --task mlm first, then give --from",
    }
    for word in args:
        name = word.partition("=")[0]
        if name in alone:
            raise SystemExit(f"error: {name} with --workers: {alone[name]}")
    pairs = zip(args, [*args[1:], ""])
    if "--model=ngrams" in args or ("--model", "ngrams") in pairs:
        raise SystemExit("error: --model ngrams has no steps to share: train it in one process")
    if "-" in args:
        raise SystemExit("error: standard input is read by one process alone: give a file that every machine can read")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chumoku.ray train",
        allow_abbrev=False,
        usage="%(prog)s [DATA] [--workers N] [flags of chumoku train]",
        description="chumoku train, its steps shared by processes of a Ray cluster. The model is the same bytes as without.",
        epilog="All other flags are those of chumoku train; chumoku train --help lists them.",
    )
    parser.add_argument("--workers", type=_at_least(1), default=2, metavar="N", help="helpers (default: 2)")
    parser.add_argument(
        "--worker-cpus", type=_at_least(1), default=1, metavar="N", help="cores, and threads, of each (default: 1)"
    )
    parser.add_argument(
        "--max-failures",
        type=_at_least(-1),
        default=-1,
        metavar="N",
        help="helpers that may die (default: -1, any number)",
    )
    parser.add_argument(
        "--address", metavar="ADDRESS", help="of the cluster (default: RAY_ADDRESS, else one that is started here)"
    )
    return parser


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text}")
        return value

    number.__name__ = "whole number"
    return number


def main(argv: list[str]) -> int:
    """``python -m chumoku.ray train``: returns the exit code."""
    own, args = _parser().parse_known_args(argv)
    _refuse_alone(args)
    # Ray prints there whom it has lost, which the leader says too; what is the command's does not come through here.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return _lead(own, args)


def _lead(own: argparse.Namespace, args: list[str]) -> int:
    import ray

    # Calls that a lost machine was to answer are made again.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if not ray.is_initialized():
        address = own.address or os.environ.get("RAY_ADDRESS")
        if address:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            cores = max(os.cpu_count() or 1, own.workers * own.worker_cpus)
            ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    environment = {}
    if "CHUMOKU_ISA" not in os.environ:
        common = _common_instruction_set()
        if common is not None:
            print(f"note      machines differ: all use {common}, as the weakest must", file=sys.stderr)
            os.environ["CHUMOKU_ISA"] = common
    for name in ("CHUMOKU_ISA", "CHUMOKU_LANG"):
        if name in os.environ:
            environment[name] = os.environ[name]
    # As it is to be called again.
    name = f"python -m chumoku.ray train --workers {own.workers} --worker-cpus {own.worker_cpus}"
    if own.address:
        name += f" --address {own.address}"
    helpers = _of_helpers(args, own.worker_cpus)
    leader = Leader(helpers, own.workers, own.worker_cpus, own.max_failures, environment)
    leader.start()
    from chumoku._chumoku import run_in_crew

    code = run_in_crew([name, "train", *args], leader, True)
    return _finish(leader, code)


def _finish(leader: Leader, code: int) -> int:
    leader.end()
    seconds = leader.seconds
    if code == 0 and leader.steps:
        each = 1000 * seconds["steps"] / leader.steps
        share = 100 * (1 - seconds["learning"] / seconds["steps"])
        print(f"crew      {each:.1f} ms a step, {share:.1f} % of it waiting for others and the exchange", file=sys.stderr)
    return code


def train(
    data: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    workers: int = 2,
    worker_cpus: int = 1,
    max_failures: int = -1,
    address: str | None = None,
    **flags: Any,
) -> dict[str, Any]:
    """Trains a model on a Ray cluster, and returns what ``metrics.json`` holds.

    The model in ``out`` is, byte for byte, the one that ``chumoku train`` makes alone, however many help and whoever dies.
    Every machine must be able to read ``data`` (and what ``from_`` names) by the same name.

    ``flags`` are those of ``chumoku train``, with ``_`` for ``-``: ``epochs=3``, ``task="score"``, ``text=["first", "second"]``,
    ``from_="encoder"``, ``force=True``. ``workers`` processes help, each with ``worker_cpus`` cores and threads; ``max_failures``
    of them may die, any number with -1. ``address`` is that of the cluster; without it the one that this process is connected to, or
    a new one on this machine.

    Raises RuntimeError with what the command said if it fails.
    """
    words = [] if data is None else [os.fspath(data)]
    words += ["--out", os.fspath(out), "--json", "--workers", str(workers), "--worker-cpus", str(worker_cpus)]
    words += ["--max-failures", str(max_failures)]
    ray = sys.modules.get("ray")
    if address is None and ray is not None and ray.is_initialized():
        address = ray.get_runtime_context().gcs_address
    if address is not None:
        words += ["--address", address]
    for name, value in flags.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [flag, ",".join(str(item) for item in value)]
        else:
            words += [flag, os.fspath(value) if hasattr(value, "__fspath__") else str(value)]
    # A process of its own: the command has the process that it runs in for itself.
    command = [sys.executable, "-m", "chumoku.ray", "train", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    last: deque[str] = deque(maxlen=1)

    def tell() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            if line.strip():
                last.append(line.strip())

    listener = threading.Thread(target=tell, daemon=True)
    listener.start()
    assert process.stdout is not None
    try:
        printed = process.stdout.read()
    except KeyboardInterrupt:
        process.wait()
        raise
    listener.join()
    if process.wait() != 0:
        raise RuntimeError("; ".join(last).removeprefix("error: ") or f"training ended with {process.returncode}")
    found: dict[str, Any] = json.loads(printed)
    return found
