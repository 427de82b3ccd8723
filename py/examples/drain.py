"""Drain before an event, approve it once drained, and recover after it. A restart continues from the state file."""

import logging
import sys
from datetime import datetime, timezone

import scheduled_events as se

POLICY = se.Policy(
    [
        se.Rule("approve", event="Freeze", max_duration=8),
        se.Rule("prepare", event=["Preempt", "Terminate", "Reboot", "Redeploy", "Freeze"]),
    ]
)


def drain(event: se.Event) -> bool:
    """Take this machine out of service. If it returns False or raises, the event is not approved."""
    left = event.not_before - datetime.now(timezone.utc) if event.not_before else None
    print(f"draining for {event.event_type}, time left: {left}", flush=True)
    return True


def undrain(event: se.Event) -> None:
    """Take this machine back into service: no event keeps it out any more. If it fails, it is called again."""
    print(f"back after {event.event_type}", flush=True)


def main(state: str) -> None:
    logging.basicConfig(level=logging.INFO)
    with se.Client() as client:
        for record in client.watch(POLICY, prepare=drain, recover=undrain, state=state, until_idle=True):
            print(record.to_dict(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "scheduled-events.state")
