#!/usr/bin/env python3
"""A queue worker that can be stopped or killed at any time: no message is lost, and each is processed at least once.

    worker.py QUEUE NAME        processes messages until QUEUE/closed exists and the queue is empty
    worker.py QUEUE --release NAME      for `run --resume`: returns what the worker NAME had claimed

The queue is a folder with three folders in it: `waiting`, `claimed` and `done`. A message is a file, and moves from one
to the next by a rename, which is atomic: of two workers that claim a message, one succeeds. What is written is complete
before it is visible. `journal` has a line for each time that
a worker began with a message. A worker that is asked to stop completes its message or returns it, whichever is faster.

Start it with:

    scheduled-events run --approve --state /var/lib/worker/NAME.state --grace 8s \\
        --resume 'worker.py QUEUE --release NAME' -- worker.py QUEUE NAME
"""

import contextlib
import os
import pathlib
import signal
import sys
import time

WORK = float(os.environ.get("WORKER_SECONDS", "1"))  # how long a message takes


class StopRequested(Exception):  # noqa: N818
    """The worker was asked to stop."""


def stop(_signal, _frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise StopRequested


def claim(queue, name):
    """Moves the oldest waiting message to `claimed`, and returns it there; None if there is none."""
    for message in sorted((queue / "waiting").iterdir()):
        claimed = queue / "claimed" / f"{message.name}@{name}"
        try:
            message.rename(claimed)
        except FileNotFoundError:
            continue  # Another worker was faster.
        return claimed
    return None


def process(queue, claimed, name):
    """Processes a message. It may have been processed before, so its result replaces an earlier one."""
    message = claimed.name.rpartition("@")[0]
    text = claimed.read_text()
    with (queue / "journal").open("a") as journal:
        journal.write(f"{message} {name}\n")
    time.sleep(WORK)
    result = queue / "done" / f".{message}@{name}"
    with result.open("w") as file:
        file.write(text.upper())
        file.flush()
        os.fsync(file.fileno())
    # After this line the message is done. A worker that is killed before the next one does it again.
    result.replace(queue / "done" / message)
    claimed.unlink(missing_ok=True)


def release(queue, name):
    """Returns what a worker of this name had claimed: its last run was interrupted."""
    for claimed in (queue / "claimed").glob(f"*@{name}"):
        with contextlib.suppress(FileNotFoundError):
            claimed.rename(queue / "waiting" / claimed.name.rpartition("@")[0])


def is_empty(queue):
    # In this order: a message that is returned meanwhile is seen in one of the two.
    return not any((queue / "claimed").iterdir()) and not any((queue / "waiting").iterdir())


def work(queue, name):
    signal.signal(signal.SIGTERM, stop)
    try:
        while True:
            claimed = claim(queue, name)
            if claimed:
                process(queue, claimed, name)
            elif (queue / "closed").exists() and is_empty(queue):
                return
            else:
                time.sleep(0.05)
    except StopRequested:
        # The message that was in progress waits for another worker.
        release(queue, name)


def main():
    queue = pathlib.Path(sys.argv[1])
    if sys.argv[2] == "--release":
        release(queue, sys.argv[3])
    else:
        # A run without `--resume` after a kill, or the first one.
        release(queue, sys.argv[2])
        work(queue, sys.argv[2])


if __name__ == "__main__":
    main()
