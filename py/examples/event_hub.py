"""Send what happens to this machine to an Azure Event Hub, one message for each record, across restarts.

EVENT_HUB is the connection string of the hub, with its EntityPath; the argument is the watcher's state file.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.request
from typing import Any
from urllib.parse import quote_plus

import scheduled_events as se


class EventHub:
    """A hub that takes messages over HTTPS."""

    def __init__(self, connection: str) -> None:
        parts = dict(part.split("=", 1) for part in connection.strip(";").split(";"))
        self.hub = parts["Endpoint"].replace("sb://", "https://").rstrip("/") + "/" + parts["EntityPath"]
        self.name, self.key = parts["SharedAccessKeyName"], parts["SharedAccessKey"]

    def token(self) -> str:
        """Sign the hub's address for five minutes."""
        hub, expiry = quote_plus(self.hub), int(time.time()) + 300
        signature = hmac.new(self.key.encode(), f"{hub}\n{expiry}".encode(), hashlib.sha256).digest()
        return (
            f"SharedAccessSignature sr={hub}&sig={quote_plus(base64.b64encode(signature))}&se={expiry}&skn={self.name}"
        )

    def send(self, message: "dict[str, Any]") -> None:
        """Send until the hub accepts it. Polling goes on meanwhile: a watcher keeps 1,024 records."""
        pause = 1.0
        while True:
            headers = {"Authorization": self.token(), "Content-Type": "application/json"}
            request = urllib.request.Request(  # noqa: S310
                self.hub + "/messages?api-version=2014-01", json.dumps(message).encode(), headers
            )
            try:
                urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
            except OSError as error:
                print(f"event hub: {error}; next attempt in {pause:g} s", file=sys.stderr, flush=True)
                time.sleep(pause)
                pause = min(2 * pause, 60)
            else:
                return


def main(state: str) -> None:
    hub = EventHub(os.environ["EVENT_HUB"])
    with se.Client() as client, client.watch(state=state) as watch:
        machine = client.vm_name()
        for record in watch:
            hub.send({"machine": machine, **record.to_dict()})


if __name__ == "__main__":
    main(sys.argv[1])
