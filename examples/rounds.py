"""Members exchange readings in rounds, one for each view: rounds.py URL NAME READING."""

import asyncio
import sys

from hopring import FlushRequest, Message, View, connect


async def main(url: str, name: str, reading: str) -> None:
    readings: dict[str, str] = {}
    async with connect(url, name=name) as session, session.join("readings", synchrony="view") as group:
        async for event in group:
            match event:
                case View(members=members):
                    if readings:  # Whoever comes along from the last view has the same ones.
                        print("ended with", *sorted(readings.values()), flush=True)
                    print("round of", *[one.name for one in members], flush=True)
                    readings = {}
                    await group.multicast(reading.encode())
                case Message(sender=sender, data=data):
                    readings[sender] = data.decode()
                    print("reading", readings[sender], flush=True)
                case FlushRequest():  # The reading is on its way since the view; there is nothing else to send.
                    await group.flush_ok(event)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
