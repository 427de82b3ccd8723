"""The command: ``python -m scheduled_events``, or ``scheduled-events``."""

from __future__ import annotations

import signal
import sys

from ._native import run


def main() -> int:
    """Run the command with the program's arguments and return its exit code."""
    # The command handles signals itself; Python's handler would run only after it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run(["scheduled-events", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
