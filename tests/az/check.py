#!/usr/bin/env python3
"""Parses every `az` command that this project prints or documents with the parser of the Azure CLI itself.

    tests/az/check.py FILE...

A command is a line that begins with `az `, indented or not, in a file of `cli/tests/golden` or `services/hub/tests/golden`, or in a page. Nothing is executed: the run ends when the
arguments are parsed, so it needs no account and no network. Commands that the parser must refuse show that it checks.
"""

import contextlib
import io
import pathlib
import shlex
import sys

from azure.cli.core import get_default_cli
from knack.events import EVENT_INVOKER_POST_PARSE_ARGS

MUST_BE_REFUSED = [
    "az vmss update --resource-group g --name n --enable-terminate-notifications true",
    "az vmss update --name n --enable-terminate-notification maybe",
    "az vmss update-instances --resource-group g --name n",
    "az vm simulate-eviction --name",
]


class Parsed(BaseException):
    """Ends a run once its arguments are parsed."""


def stop(_cli, **_arguments):
    raise Parsed


def parse(words):
    """The exit code of the parser, 0 if it accepts the command and 2 if it refuses it, and what it says."""
    cli = get_default_cli()
    cli.register_event(EVENT_INVOKER_POST_PARSE_ARGS, stop)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            return cli.invoke(words), output.getvalue()
        except Parsed:
            return 0, ""
        except SystemExit as error:
            return error.code, output.getvalue()


def main():
    passed = failed = 0
    for name in sys.argv[1:]:
        lines = pathlib.Path(name).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(map(str.lstrip, lines), 1):
            if not line.startswith("az "):
                continue
            code, remark = parse(shlex.split(line)[1:])
            if code != 0:
                print(f"{name}:{number}: {line}\n  exit code {code}: {remark.strip()}")
                failed += 1
            else:
                passed += 1
    if not passed:
        print("error: no command was found")
        failed += 1
    for line in MUST_BE_REFUSED:
        code, remark = parse(shlex.split(line)[1:])
        if code != 2:
            print(f"not refused: {line}\n  exit code {code}: {remark.strip()}")
            failed += 1
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
