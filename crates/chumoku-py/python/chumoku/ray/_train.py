"""Training on a cluster: processes on several machines share the steps of a run.

The coordinator (``_coordinator.py``) is this process. It runs ``chumoku train`` as usual, but workers (``_worker.py``)
compute the gradients of a batch's micro-batches. A worker needs only the weights. The coordinator adds the gradients in
the order of the micro-batches. If a worker dies, only its current micro-batches are repeated; a new worker gets
micro-batches from the next step on. The model is the same bytes for any set of workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from typing import Any, NamedTuple

from . import _cluster
from ._coordinator import Coordinator, weaker
from ._messages import Pick, UsageError, japanese, own_flags, pick_of, whole_number

_USAGE = (
    """\
usage: python -m chumoku.ray train [DATA] [--workers N] [flags of chumoku train]

Runs chumoku train with its steps shared by processes of a Ray cluster. The model is byte for byte the same.

  --workers N        number of workers (default: 2)
  --worker-cpus N    cores and threads per worker (default: 1)
  --max-failures N   number of workers that may die (default: -1, any number)
  --address ADDRESS  the cluster: auto, local, or host:port (default: RAY_ADDRESS, or a new one on this machine)

All other flags are those of chumoku train; chumoku train --help lists them.
""",
    """\
使い方: python -m chumoku.ray train [データ] [--workers N] [chumoku train のオプション]

chumoku train の各ステップを Ray クラスターのプロセスで分担します。モデルは 1 プロセスの場合とバイト単位で一致します。

  --workers N          ワーカーの数（既定: 2）
  --worker-cpus N      各ワーカーのコア数とスレッド数（既定: 1）
  --max-failures N     許容するワーカーの異常終了の回数（既定: -1、無制限）
  --address アドレス   クラスター。auto、local、ホスト:ポート（既定: RAY_ADDRESS、なければこのマシンで起動）

ほかのオプションは chumoku train と同じです。一覧は chumoku train --help で見られます。
""",
)

# The command's flags for the coordinator only, with their number of values.
COORDINATOR_FLAGS = {
    "--out": 1,
    "--threads": 1,
    "--watch": 1,
    "--resume": 0,
    "--force": 0,
    "--json": 0,
    "--profile": 0,
}


def _instruction_set() -> str:
    from chumoku._chumoku import instruction_set

    return instruction_set()


def _common_instruction_set() -> str | None:
    """The best instruction set that all machines support; None if that is all this one has."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0)(_instruction_set)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    pending = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)).remote()
        for node in nodes
    ]
    found = ray.get(pending)
    # Queried in a separate process: this one may later be restricted to less.
    code = "from chumoku._chumoku import instruction_set; print(instruction_set())"
    here = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    weakest = here
    for name in found:
        weakest = weaker(weakest, name)
    return weakest if weakest != here or any(name != here for name in found) else None


def _worker_args(args: list[str], cpus: int) -> list[str]:
    """Returns the command's arguments without the coordinator's own flags."""
    kept: list[str] = []
    words = iter(args)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in COORDINATOR_FLAGS:
            if COORDINATOR_FLAGS[name] and not equals:
                next(words, None)
            continue
        kept.append(word)
    return [*kept, "--threads", str(cpus)]


def _reject_unshareable(args: list[str], pick: Pick) -> None:
    """Rejects runs without steps that could be shared."""
    alone = {
        "--tune": (
            "a search trains many models: run it in one process, then train with the --settings that it prints",
            "探索は多くのモデルを訓練します。1 プロセスで実行し、表示される --settings で訓練してください",
        ),
        "--folds": (
            "cross-validation trains many models: run it in one process",
            "交差検証は多くのモデルを訓練します。1 プロセスで実行してください",
        ),
        "--unlabelled": ("pretrain with --task mlm first, then give --from", "先に --task mlm で事前学習し、--from で指定してください"),
    }
    for word in args:
        name = word.partition("=")[0]
        if name in alone:
            en, ja = alone[name]
            raise UsageError(pick(f"{name} with --workers: {en}", f"{name} と --workers: {ja}"))
    pairs = zip(args, [*args[1:], ""])
    if "--model=ngrams" in args or ("--model", "ngrams") in pairs:
        raise UsageError(
            pick(
                "--model ngrams has no steps to share: train it in one process",
                "--model ngrams には分担できるステップがありません。1 プロセスで訓練してください",
            )
        )
    if "-" in args:
        raise UsageError(
            pick(
                "standard input can be read by one process only: give a file that every machine can read",
                "標準入力を読めるのは 1 プロセスだけです。すべてのマシンから読めるファイルを指定してください",
            )
        )


class _ClusterOptions(NamedTuple):
    """The cluster options of a command line."""

    workers: int
    worker_cpus: int
    max_failures: int
    address: str | None


def _cluster_options(own: dict[str, str], pick: Pick) -> _ClusterOptions:
    failures = None if own.get("--max-failures") == "-1" else own.get("--max-failures")
    if failures is not None and not (failures.isascii() and failures.isdigit()):
        raise UsageError(
            pick(
                f"--max-failures: expected a whole number, or -1 for any number, found {failures}",
                f"--max-failures: 整数（無制限なら -1）が必要ですが、{failures} です",
            )
        )
    return _ClusterOptions(
        whole_number("--workers", own, pick) or 2,
        whole_number("--worker-cpus", own, pick) or 1,
        -1 if failures is None else int(failures),
        own.get("--address"),
    )


def main(argv: list[str]) -> int:
    """``python -m chumoku.ray train``: returns the exit code."""
    pick = pick_of(argv)
    if "-h" in argv or "--help" in argv:
        print(pick(*_USAGE), end="")
        return 0
    try:
        own, args = own_flags(argv, ("--workers", "--worker-cpus", "--max-failures", "--address"), pick)
        options = _cluster_options(own, pick)
        _reject_unshareable(args, pick)
        # Ray prints lost workers there, which the coordinator reports too. The command's own output does not use this
        # stream.
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            return _coordinate(options, args, pick)
    except UsageError as error:
        print(f"{pick('error', 'エラー')}: {error}", file=sys.stderr)
        return 2


def _coordinate(own: _ClusterOptions, args: list[str], pick: Pick) -> int:
    # Calls to a lost machine are repeated.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    _cluster.join(_cluster.address_of(own.address, pick), pick, needed=own.workers * own.worker_cpus, log_to_driver=False)
    environment = {}
    if "CHUMOKU_ISA" not in os.environ:
        common = _common_instruction_set()
        if common is not None:
            note = f"the machines differ: all use {common}, the best that they share", f"マシンごとに命令セットが異なるため、共通で使える {common} に揃えます"
            print(pick(f"note      {note[0]}", f"注意 {note[1]}"), file=sys.stderr)
            os.environ["CHUMOKU_ISA"] = common
    if "CHUMOKU_ISA" in os.environ:
        environment["CHUMOKU_ISA"] = os.environ["CHUMOKU_ISA"]
    # The command line for resuming.
    name = f"python -m chumoku.ray train --workers {own.workers} --worker-cpus {own.worker_cpus}"
    if own.address:
        name += f" --address {own.address}"
    worker_args = _worker_args(args, own.worker_cpus)
    if not any(word.partition("=")[0] == "--lang" for word in worker_args):
        # Worker machines may have another language setting.
        worker_args += ["--lang", "ja" if pick is japanese else "en"]
    coordinator = Coordinator(worker_args, own.workers, own.worker_cpus, own.max_failures, pick, environment)
    coordinator.start()
    from chumoku._chumoku import run_in_worker_group

    code = run_in_worker_group([name, "train", *args], coordinator, True)
    return _finish(coordinator, code, pick)


def _finish(coordinator: Coordinator, code: int, pick: Pick) -> int:
    coordinator.end()
    seconds = coordinator.seconds
    if code == 0 and coordinator.steps:
        each = 1000 * seconds["steps"] / coordinator.steps
        share = 100 * (1 - seconds["training"] / seconds["steps"])
        message = pick(
            f"workers   {each:.1f} ms a step, {share:.1f} % of it waiting and communication",
            f"分担 1 ステップ {each:.1f} ms、うち待ちと通信が {share:.1f} %",
        )
        print(message, file=sys.stderr)
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
    """Trains a model on a Ray cluster, and returns the content of ``metrics.json``.

    The model in ``out`` is, byte for byte, the one that ``chumoku train`` produces alone, for any number of workers and
    failures. Every machine must be able to read ``data`` (and the folder of ``from_``) by the same name.

    ``flags`` are those of ``chumoku train``, with ``_`` for ``-``: ``epochs=3``, ``task="score"``, ``text=["first",
    "second"]``, ``from_="encoder"``, ``force=True``. The run uses ``workers`` processes with ``worker_cpus`` cores and
    threads each. ``max_failures`` of them may die; -1 allows any number. ``address`` is that of the cluster. The
    default is the cluster that this process is connected to, or a new one on this machine.

    Raises RuntimeError with the command's error message if it fails.
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
    # A separate process: the command can run only once per process.
    command = [sys.executable, "-m", "chumoku.ray", "train", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    last: deque[str] = deque(maxlen=1)

    def forward_stderr() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            if line.strip():
                last.append(line.strip())

    listener = threading.Thread(target=forward_stderr, daemon=True)
    listener.start()
    assert process.stdout is not None
    try:
        printed = process.stdout.read()
    except KeyboardInterrupt:
        process.wait()
        raise
    listener.join()
    if process.wait() != 0:
        message = "; ".join(last).removeprefix("error: ").removeprefix("エラー: ")
        raise RuntimeError(message or f"training ended with {process.returncode}")
    found: dict[str, Any] = json.loads(printed)
    return found
