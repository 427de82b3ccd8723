"""Continues from a snapshot in Python.

    handover.py keep SNAPSHOT MACHINE-ID BOOT-ID OUT       restore it in a Session, and write it again
    handover.py recover SNAPSHOT MACHINE-ID BOOT-ID OUT    the same after the events have ended and before the recovery is done
    handover.py watch STATE URL                            watch with it as the state file until all is recovered from
"""

import json
import pathlib
import sys

import scheduled_events as se

POLICY = se.Policy([se.Rule("prepare")])
NOW = 4_000_000_000


def session(source, machine_id, boot_id, out, ended):
    made = se.Session(POLICY, vm_names="web_0", machine_id=machine_id, boot_id=boot_id)
    made.restore(pathlib.Path(source).read_bytes())
    assert made.out_of_service_since is not None
    now = NOW
    while ended and not isinstance(step := made.next(now), se.RecoverDue):
        if isinstance(step, se.Get):
            made.on_response(200, json.dumps({"DocumentIncarnation": 902, "Events": []}).encode(), now=now)
        elif isinstance(step, se.Wait):
            now += max(step.seconds, 0.01)
    pathlib.Path(out).write_bytes(made.snapshot())


def watch(state, url):
    recovered = []
    watcher = se.Client(url, vm_names="web_0").watch(POLICY, recover=recovered.append, state=state, until_idle=True)
    outcomes = [record.outcome for record in watcher if record.record == "recover"]
    assert (outcomes, len(recovered)) == (["done"], 1), (outcomes, recovered)


what, *arguments = sys.argv[1:]
if what == "watch":
    watch(*arguments)
else:
    session(*arguments, ended=what == "recover")
