"""Poll with Python's HTTP libraries: one poll for each line on stdin, its cost as a line on stdout."""

import http.client
import json
import sys
import time
import urllib.parse
import urllib.request

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
HEADERS = {"Metadata": "true"}


def with_http_client(endpoint):
    """Poll over a persistent connection."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(endpoint).netloc, timeout=5)

    def poll():
        connection.request("GET", PATH, headers=HEADERS)
        return json.loads(connection.getresponse().read())

    return poll


def with_urllib(endpoint):
    """Poll as most scripts do, with a new connection each time."""
    request = urllib.request.Request(endpoint + PATH, headers=HEADERS)

    def poll():
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.loads(answer.read())

    return poll


def with_requests(endpoint):
    """Poll as Microsoft's sample does."""
    import requests

    return lambda: requests.get(endpoint + PATH, headers=HEADERS, timeout=5).json()


def with_session(endpoint):
    """Poll with requests over a persistent connection."""
    import requests

    session = requests.Session()
    return lambda: session.get(endpoint + PATH, headers=HEADERS, timeout=5).json()


COMPETITORS = {
    "http.client": with_http_client,
    "urllib": with_urllib,
    "requests": with_requests,
    "requests.Session": with_session,
}


def peak_kib():
    """Return the peak memory of this process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def main():
    """Poll until stdin ends."""
    name, endpoint = sys.argv[1:]
    poll = COMPETITORS[name](endpoint)
    for _ in sys.stdin:
        processor, begun = time.process_time_ns(), time.perf_counter_ns()
        document = poll()
        elapsed, used = time.perf_counter_ns() - begun, time.process_time_ns() - processor
        assert document["Events"], "expected events"
        print(elapsed, used, peak_kib(), flush=True)


if __name__ == "__main__":
    main()
