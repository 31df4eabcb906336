"""The cluster that a command line is for: one that runs, or this machine alone."""

from __future__ import annotations

import logging
import os
import re
import socket
from typing import Any

from ._words import Pick, Wrong

# Seconds in which a cluster must be reached: Ray itself would go on trying.
_SECONDS = 5.0
_ADDRESS = re.compile(r"(?:ray://)?(?:\[([^\[\]/]+)\]|([^\[\]/:\s]+)):(\d{1,5})")


def address_of(given: str | None, pick: Pick) -> str | None:
    """The address of the cluster; None where this machine alone is to be one, or this process has joined one already.

    Raises:
        Wrong: it is no address.
    """
    import ray

    if ray.is_initialized():
        return None
    name, address = "--address", given
    if address is None:
        name, address = "RAY_ADDRESS", os.environ.get("RAY_ADDRESS")
    if not address or address == "local":
        return None
    found = _ADDRESS.fullmatch(address)
    if address != "auto" and (found is None or not 1 <= int(found[3]) <= 65535):
        raise Wrong(
            pick(
                f"{name}: expected auto, local or host:port (such as 10.0.0.1:6379), found {address}",
                f"{name}: auto、local、ホスト:ポート（10.0.0.1:6379 など）のいずれかが必要ですが、{address} です",
            )
        )
    return address


def cores() -> int:
    """Those of this machine."""
    return os.cpu_count() or 1


def join(address: str | None, pick: Pick, *, needed: int, log_to_driver: bool = True) -> None:
    """Joins the cluster with an address of :func:`address_of`, or makes this machine one, with as many cores as are needed.

    Raises:
        Wrong: there is no such cluster.
    """
    import ray

    if ray.is_initialized():
        return
    options: dict[str, Any] = {"log_to_driver": log_to_driver, "logging_level": logging.ERROR}
    if address is None:
        ray.init(address="local", num_cpus=max(cores(), needed), include_dashboard=False, **options)
        return
    _reach(_recorded(pick) if address == "auto" else address, pick)
    try:
        ray.init(address=address, **options)
    except Exception as error:
        # Whatever Ray raises: other versions, a package that it lacks, a port that is another program's.
        said = " ".join(str(error).split()) or type(error).__name__
        raise Wrong(pick(f"the cluster at {address} cannot be joined: {said}", f"クラスター {address} に参加できません: {said}")) from None


def _recorded(pick: Pick) -> str | None:
    """Where the cluster of this machine is; None where this version of Ray does not say."""
    try:
        from ray._private.services import get_ray_address_from_environment as found
    except ImportError:
        return None
    try:
        address = found("auto", None)
    except ConnectionError:
        raise Wrong(
            pick(
                "--address auto: no cluster runs on this machine: start one with `ray start --head`, or leave --address out to use this machine alone",
                "--address auto: このマシンではクラスターが動いていません。`ray start --head` で起動するか、--address を外してこのマシンだけで実行してください",
            )
        ) from None
    return str(address)


def _reach(address: str | None, pick: Pick) -> None:
    """Connects once, to see that somebody is there."""
    found = None if address is None else _ADDRESS.fullmatch(address)
    if found is None:
        return
    try:
        socket.create_connection((found[1] or found[2], int(found[3])), timeout=_SECONDS).close()
    except OSError as error:
        said = error.strerror or str(error)
        raise Wrong(
            pick(
                f"no cluster answers at {address} ({said}): see with `ray status --address {address}` whether it runs, "
                "or leave --address out and unset RAY_ADDRESS to use this machine alone",
                f"{address} のクラスターから応答がありません（{said}）。`ray status --address {address}` で動作を確認するか、"
                "--address を外し RAY_ADDRESS の設定を消してこのマシンだけで実行してください",
            )
        ) from None
