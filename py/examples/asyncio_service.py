"""An asyncio service that watches while it serves, and drains on its own event loop."""

import asyncio

import scheduled_events as se


class Service:
    """Counts requests, in place of a real service."""

    def __init__(self) -> None:
        self.accepting = True
        self.served = 0

    async def serve(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            self.served += self.accepting

    async def drain(self, event: se.Event) -> None:
        self.accepting = False
        print(f"drained for {event.event_type} after {self.served} requests", flush=True)

    async def undrain(self, event: se.Event) -> None:
        self.accepting = True
        print(f"serving again after {event.event_type}", flush=True)


async def main() -> None:
    service = Service()
    serving = asyncio.create_task(service.serve())
    policy = se.Policy([se.Rule("prepare")])
    async for record in se.aio.watch(policy=policy, prepare=service.drain, recover=service.undrain, until_idle=True):
        print(record, flush=True)
    serving.cancel()


if __name__ == "__main__":
    asyncio.run(main())
