"""What tests have left open: sockets, and the threads of servers."""

import os
from pathlib import Path


def left() -> "list[str]":
    """The sockets that this process has opened, and its threads of replay servers, as Linux lists them."""
    here = Path("/proc/self")
    files = [int(file.name) for file in (here / "fd").iterdir()]
    names = [(thread / "comm").read_text().strip() for thread in (here / "task").iterdir()]
    return [f"socket {file}" for file in files if is_own_socket(file)] + [
        f"thread {name}" for name in names if name.startswith("replay-")
    ]


def is_own_socket(file: int) -> bool:
    """Whether a file is a socket that programs which this process starts do not inherit."""
    try:
        return os.readlink(f"/proc/self/fd/{file}").startswith("socket:") and not os.get_inheritable(file)
    except OSError:
        return False  # The file of the listing itself.
