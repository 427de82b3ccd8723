"""Microsoft's sample of 2017, written with this package: print the events that concern this host."""

import scheduled_events as se


def main() -> None:
    with se.Client() as client:
        document, this_host = client.poll(), client.vm_name()
        for event in document.events:
            if event.concerns(this_host):
                print(
                    f"+ Scheduled Event. {this_host} is scheduled for {event.event_type} not before {event.not_before}"
                )
                # Handle the event here.


if __name__ == "__main__":
    main()
