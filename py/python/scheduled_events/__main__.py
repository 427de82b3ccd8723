"""The command: ``python -m scheduled_events``, or ``scheduled-events``."""

from __future__ import annotations

import signal
import sys

from ._native import run


def main() -> int:
    """Run the command with the program's arguments, and give its exit code."""
    # The command handles its signals itself; Python's handler would only run once it is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run(["scheduled-events", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
