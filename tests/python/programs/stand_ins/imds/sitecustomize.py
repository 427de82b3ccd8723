"""Stands for the route to Azure's metadata service: connections to 169.254.169.254 go to the replay server at $REPLAY.

The address and port are those of Microsoft's documentation, which the samples use; no test ever ran on Azure. Python
imports this file at its start from PYTHONPATH, so that programs run unchanged. Pacemaker's nodes, which have namespaces
of their own, have the address itself.
"""

import os
import socket

_connect = socket.socket.connect


def _to_replay(self, address):
    if address[:2] == ("169.254.169.254", 80):
        host, _, port = os.environ["REPLAY"].removeprefix("http://").rpartition(":")
        address = (host, int(port))
    return _connect(self, address)


socket.socket.connect = _to_replay
