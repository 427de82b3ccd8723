"""Microsoft's sample of 2020: approve what a user started and freezes below nine seconds, log the rest.

The original has 79 lines, waits for a key before each document, and approves other machines' events too.
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
