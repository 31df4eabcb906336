"""The command ``chumoku``, also available as ``python -m chumoku``."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Runs the command with the arguments of the process, then exits with its exit code."""
    from ._chumoku import run_command

    # The command handles Ctrl-C itself, to save its work.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    code = run_command(["chumoku", *sys.argv[1:]])
    # Exits at once: Python has nothing left to do, and a handler of the command may still be waiting.
    os._exit(code)


if __name__ == "__main__":
    main()
