"""Microsoft's sample of 2020, written with this package: approve what a user started and short freezes, log the rest.

The original waits for a key before each poll and approves other machines' events too; this one does neither.
"""

import scheduled_events as se


def main() -> None:
    with se.Client() as client, client.watch(policy=se.Policy.sample(), until_idle=True) as watch:
        for record in watch:
            if isinstance(record, se.Change):
                print(f"{record.change}: {record.event_type} {record.event_id}")
            elif isinstance(record, se.Decision) and record.action == "hold":
                print(f"custom handling for {record.event_id}: {record.reason}")
            elif isinstance(record, se.Approval):
                print(f"approved {', '.join(record.event_ids)}: {record.status}")


if __name__ == "__main__":
    main()
