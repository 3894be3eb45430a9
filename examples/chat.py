"""A chat room: every member sees the same lines, arrivals and departures, in the same order.

    hop up                                        in another terminal
    python examples/chat.py lobby --name anna

Typed lines go to the room; the end of the input leaves it.
"""

import asyncio
import sys
from argparse import ArgumentParser

from hopring import Group, Message, Transition, View, connect


async def show(room: Group) -> None:
    """Prints messages and views as they arrive; both come in one ordered stream."""
    async for event in room:
        match event:
            case Message():
                print(f"{event.sender}: {event.data.decode(errors='replace')}", flush=True)
            case View():
                print(
                    f"* in the room: {' '.join(one.name for one in event.members)} ({event.cause})", flush=True
                )
            case Transition():
                # Lines between this signal and the next view are certain to reach these members only.
                print(
                    f"* the network changes; with us: {' '.join(one.name for one in event.members)}", flush=True
                )


async def send_lines(room: Group) -> None:
    """Sends each line of stdin to the group."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        await room.multicast(line.rstrip(b"\n"))


async def main() -> None:
    """Runs one client until its input ends."""
    parser = ArgumentParser(description="A chat room.")
    parser.add_argument("room")
    parser.add_argument("--name")
    parser.add_argument("--at", default="hop://localhost:4893", metavar="URL", help="a daemon")
    options = parser.parse_args()
    async with connect(options.at, name=options.name) as session, session.join(options.room) as room:
        showing = asyncio.create_task(show(room))
        await send_lines(room)
        showing.cancel()


if __name__ == "__main__":
    asyncio.run(main())
