"""What a program does with the installed module: it reads a document, and watches, prepares for, approves and recovers from a
maintenance of the replay server."""

import tempfile
from pathlib import Path

import scheduled_events as se

document = se.parse(b'{"DocumentIncarnation":7,"Events":[{"EventId":"a","EventType":"Reboot","Resources":["vm_0"]}]}')
assert document.incarnation == 7, document
assert [event.event_id for event in document.events] == ["a"], document
try:
    se.parse(b'{"Events":[}')
except ValueError as error:
    assert "found" in str(error), error
else:
    raise AssertionError("it read what is no document")

called = []
policy = se.Policy([se.Rule("prepare")])
with tempfile.TemporaryDirectory() as folder, se.replay("preempt", speed=10) as url, se.Client(url) as client:
    state = Path(folder, "state")
    records = list(
        client.watch(
            policy,
            prepare=lambda event: called.append(f"prepare {event.event_type}") or True,
            recover=lambda event: called.append(f"recover {event.event_type}"),
            state=state,
            until_idle=True,
        )
    )
    assert state.stat().st_size > 0
names = [type(record).__name__ for record in records]
# On a busy machine a poll may miss a part of it.
assert records and [record.change for record in records if isinstance(record, se.Change)][-1] in ("completed", "ended"), records
assert called == ["prepare Preempt", "recover Preempt"], called
assert [record.status for record in records if isinstance(record, se.Approval)] == [200], records
print(*names)
