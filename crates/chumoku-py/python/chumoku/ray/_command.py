"""The command line: Ray's own flags, and the command's output in a file."""

from __future__ import annotations

import logging
import pathlib
import sys
import time
from typing import Sequence

from .. import _chumoku
from . import _cluster
from ._messages import Pick, UsageError, own_flags, pick_of, whole_number

_USAGE = (
    """\
usage: python -m chumoku.ray predict MODEL DATA --out FILE [--workers N] [flags of chumoku predict]
       python -m chumoku.ray train … (see python -m chumoku.ray train --help)

  --out FILE           the file to write: byte for byte the output of `chumoku predict`
  --workers N          number of workers, each of which loads the model (default: as many as fit into the cluster; on a
                       single machine at most one per core)
  --threads N          threads of each worker (default: 1)
  --address ADDRESS    the cluster: auto, local, or host:port (default: RAY_ADDRESS, else only this machine)
  --rows-per-part N    rows per chunk that a worker gets (default: 1024)
""",
    """\
使い方: python -m chumoku.ray predict モデル データ --out ファイル [--workers N] [chumoku predict のオプション]
        python -m chumoku.ray train …（python -m chumoku.ray train --help を参照）

  --out ファイル       書き出すファイル。`chumoku predict` の出力とバイト単位で一致します
  --workers N          ワーカーの数。それぞれがモデルを読み込みます（既定: クラスターに
                       収まるだけ。このマシンだけで実行するときはコア数まで）
  --threads N          各ワーカーのスレッド数（既定: 1）
  --address アドレス   クラスター。auto、local、ホスト:ポート（既定: RAY_ADDRESS、なければこのマシンだけ）
  --rows-per-part N    ワーカーに一度に渡す行数（既定: 1024）
""",
)

# Seconds between progress lines.
_PROGRESS_INTERVAL = 20.0


def run(arguments: Sequence[str]) -> int:
    """Runs a command line. Returns its exit code: 0; 1 if the work failed; 2 for wrong use or unreadable input; 130 on
    Ctrl-C."""
    pick = pick_of(arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(pick(*_USAGE), end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    name, rest = arguments[0], list(arguments[1:])
    if name not in ("predict", "train"):
        print(pick(f"error: expected predict or train, found {name}", f"エラー: predict か train が必要ですが、{name} です"), file=sys.stderr)
        return 2
    if name == "train":
        from ._train import main

        return main(rest)
    if "-h" in rest or "--help" in rest:
        print(pick(*_USAGE), end="")
        return 0
    try:
        return _predict(rest, pick)
    except UsageError as error:
        print(f"{pick('error', 'エラー')}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _predict(arguments: list[str], pick: Pick) -> int:
    own, rest = own_flags(arguments, ("--out", "--workers", "--threads", "--address", "--rows-per-part"), pick)
    if "--out" not in own:
        raise UsageError(pick("expected --out FILE: where to write the answers", "--out ファイル が必要です。回答の書き出し先です"))
    if own["--out"] == "-":
        raise UsageError(pick("--out -: expected the name of a file, not standard output", "--out -: 標準出力は指定できません。ファイルの名前が必要です"))
    out = pathlib.Path(own["--out"])
    workers = whole_number("--workers", own, pick)
    cpus, rows = whole_number("--threads", own, pick) or 1, whole_number("--rows-per-part", own, pick) or 1024
    _check_output(out, rest, pick)
    address = _cluster.address_of(own.get("--address"), pick)
    command = ["chumoku", "predict", *rest]
    report = lambda en, ja, text: print(f"{pick(f'{en:<9}', ja)} {text}", file=sys.stderr)
    workers = _fitting(workers, cpus, address, pick, report)
    failed = lambda message: print(f"{pick('error', 'エラー')}: {message}", file=sys.stderr)
    try:
        reader = _chumoku.RowReader.open(command)
        report("data", "データ", reader.description)
        if not any(word.partition("=")[0] == "--lang" for word in rest):
            command += ["--lang", reader.lang]
        del reader
    except ValueError as error:
        # clap's message already starts with "error".
        print(str(error) if str(error).startswith(("error", "エラー")) else f"{pick('error', 'エラー')}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        failed(error)
        return 1
    try:
        file = _chumoku.Output(out, _named(rest))
    except OSError as error:
        raise UsageError(pick(f"{out}: cannot be written: {error}", f"{out}: 書き込めません: {error}")) from None
    try:
        code = _write(file, command, (address, workers, cpus, rows), (pick, report, failed))
        if code == 0:
            file.commit()
        return code
    finally:
        file.close()


def _named(words: list[str]) -> list[str]:
    """Returns the file names that arguments may hold: words, and values given as `--flag=value`."""
    pairs = (word.partition("=") for word in words)
    return [value if equals and name.startswith("--") else name + equals + value for name, equals, value in pairs]


def _check_output(out: pathlib.Path, words: list[str], pick: Pick) -> None:
    """Rejects an output file that the command line names as input, or that belongs to the model's folder."""
    if _chumoku.is_one_of(out, _named(words)):
        raise UsageError(
            pick(
                f"--out {out}: this is an input file; choose another output",
                f"--out {out}: 入力ファイルです。別の出力先を指定してください",
            )
        )


def _fitting(workers: int | None, cpus: int, address: str | None, pick: Pick, report) -> int | None:
    """On a single machine, returns as many workers as it has cores for."""
    import ray

    if workers is None or address is not None or ray.is_initialized():
        return workers
    cores = _cluster.cores()
    room = max(cores // cpus, 1)
    if workers <= room:
        return workers
    each = "" if cpus == 1 else pick(f", and each worker takes {cpus}", f"、ワーカー 1 つにつき {cpus}")
    few = "core" if cores == 1 else "cores"
    report("workers", "ワーカー", pick(f"{room}, as this machine has {cores} {few}{each}", f"{room}（このマシンのコア数は {cores}{each}）"))
    return room


def _write(file, command: list[str], how, say) -> int:
    from ._chunks import written

    (address, workers, cpus, rows), (pick, report, failed) = how, say
    # Ray Data logs its plans.
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    _cluster.join(address, pick, needed=(workers or 1) * cpus)
    done, unanswered, reason, ended, last_report = 0, 0, None, False, time.monotonic()
    for part in written(command, workers=workers, cpus=cpus, rows=rows):
        if part.failed is not None:
            failed(part.failed)
            return 2 if part.is_usage else 1
        if part.content is None:
            ended = True
            if part.skipped:
                report("skipped", "除外", part.skipped)
            continue
        file.write(part.content)
        done, unanswered = done + part.rows, unanswered + part.unanswered
        reason = reason if reason is not None else part.reason
        if time.monotonic() - last_report > _PROGRESS_INTERVAL:
            last_report = time.monotonic()
            report("rows", "行", f"{done:,}")
    if not ended:
        failed(pick("Ray gave no end of the rows: nothing was written; run it again", "Ray から行の終わりが届きませんでした。何も書き出していません。もう一度実行してください"))
        return 1
    if unanswered:
        report("unanswered", "未回答", _chumoku.unanswered(unanswered, reason or ""))
    return 0
