"""A threaded web service with a load balancer: unready from the preparation for an event until it has recovered."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import scheduled_events as se

ready = threading.Event()
ready.set()


class Handler(BaseHTTPRequestHandler):
    """Answers the load balancer's probe."""

    def do_GET(self) -> None:
        self.send_response(200 if ready.is_set() else 503)
        self.end_headers()


def drain(event: se.Event, task: se.Task) -> bool:
    """Wait until requests in progress have had time to end, but no longer than the event is worth waiting for."""
    ready.clear()
    print(f"unready for {event.event_type}", flush=True)
    return not task.cancelled.wait(0.5)


def undrain(event: se.Event) -> None:
    """Take requests again."""
    ready.set()
    print(f"ready again after {event.event_type}", flush=True)


def watch(client: se.Client) -> None:
    """Follow the events of this machine; a thread of the service."""
    policy = se.Policy([se.Rule("prepare")])
    for record in client.watch(policy, prepare=drain, recover=undrain, until_idle=True):
        print(record, flush=True)


def main() -> None:
    """Serve until no event is left; a real service goes on."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with se.Client() as client:
        watcher = threading.Thread(target=watch, args=(client,))
        watcher.start()
        while watcher.is_alive():
            time.sleep(0.05)  # the service's own work
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
