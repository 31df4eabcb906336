"""``python -m chumoku.ray predict|train``: the command, with workers of Ray."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the subcommand with the arguments of the process, then exits with its exit code."""
    from ._command import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
