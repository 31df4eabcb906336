"""``python -m chumoku.ray predict|train``: the command, with workers of Ray."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs what is asked for with the arguments of the process, and ends the process as it ends."""
    from ._command import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
