"""The command: ``chumoku``, which is ``python -m chumoku``."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Runs the command with the arguments of the process, and ends the process as it ends."""
    from ._chumoku import run_command

    # Ctrl-C is the command's to take: it saves what is there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    code = run_command(["chumoku", *sys.argv[1:]])
    # At once: nothing of Python's is left to do, and a handler of the command's may be waiting.
    os._exit(code)


if __name__ == "__main__":
    main()
