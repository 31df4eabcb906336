"""The cluster for a command line: a running one, or only this machine."""

from __future__ import annotations

import logging
import os
import re
import socket
from typing import Any

from ._messages import Pick, UsageError

# Timeout for reaching a cluster, in seconds; Ray itself would keep trying.
_CONNECT_TIMEOUT = 5.0
_ADDRESS = re.compile(r"(?:ray://)?(?:\[([^\[\]/]+)\]|([^\[\]/:\s]+)):(\d{1,5})")


def address_of(given: str | None, pick: Pick) -> str | None:
    """Returns the address of the cluster. None stands for this machine only, or for a cluster that this process has
    already joined.

    Raises:
        UsageError: the value is not an address.
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
        raise UsageError(
            pick(
                f"{name}: expected auto, local or host:port (such as 10.0.0.1:6379), found {address}",
                f"{name}: auto、local、ホスト:ポート（10.0.0.1:6379 など）のいずれかが必要ですが、{address} です",
            )
        )
    return address


def cores() -> int:
    """Returns the number of cores of this machine."""
    return os.cpu_count() or 1


def join(address: str | None, pick: Pick, *, needed: int, log_to_driver: bool = True) -> None:
    """Joins the cluster at an address from :func:`address_of`, or starts one on this machine with as many cores as
    needed.

    Raises:
        UsageError: there is no such cluster.
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
        # Ray raises many errors: for other versions, missing packages, or a port of another program.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(pick(f"the cluster at {address} cannot be joined: {reason}", f"クラスター {address} に参加できません: {reason}")) from None


def _recorded(pick: Pick) -> str | None:
    """Returns the address of this machine's cluster; None if this version of Ray does not provide it."""
    try:
        from ray._private.services import get_ray_address_from_environment as found
    except ImportError:
        return None
    try:
        address = found("auto", None)
    except ConnectionError:
        raise UsageError(
            pick(
                "--address auto: no cluster runs on this machine: start one with `ray start --head`, or leave --address out to use this machine alone",
                "--address auto: このマシンではクラスターが動いていません。`ray start --head` で起動するか、--address を外してこのマシンだけで実行してください",
            )
        ) from None
    return str(address)


def _reach(address: str | None, pick: Pick) -> None:
    """Connects once to check that a server is listening."""
    found = None if address is None else _ADDRESS.fullmatch(address)
    if found is None:
        return
    try:
        socket.create_connection((found[1] or found[2], int(found[3])), timeout=_CONNECT_TIMEOUT).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            pick(
                f"no cluster answers at {address} ({reason}): see with `ray status --address {address}` whether it runs, "
                "or leave --address out and unset RAY_ADDRESS to use this machine alone",
                f"{address} のクラスターから応答がありません（{reason}）。`ray status --address {address}` で動作を確認するか、"
                "--address を外し RAY_ADDRESS の設定を消してこのマシンだけで実行してください",
            )
        ) from None
