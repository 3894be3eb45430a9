"""A program with one session at a URL: joins a group, sends the lines of its standard input, prints events."""

import asyncio
import json
import sys

from hopring import SAFE, Message, Transition, View, connect


def say(**values: object) -> None:
    print(json.dumps(values), flush=True)


async def main(url: str, name: str) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with connect(url, name=name, timeout_seconds=60) as session:
        group = await session.join("g")
        say(joined=name, private=session.private_group)

        async def show() -> None:
            async for event in group:
                if isinstance(event, Message):
                    say(data=bytes(event.data).decode(), place=str(event.place))
                elif isinstance(event, View):
                    members = sorted([one.name for one in event.members])
                    say(members=members, cause=event.cause, together=len(event.together))
                elif isinstance(event, Transition):
                    say(transition=len(event.members))

        showing = asyncio.create_task(show())
        while line := (await lines.readline()).decode().strip():
            if line == "safe":
                receipt = await group.multicast_wait(b"safe", service=SAFE, timeout_seconds=60)
                say(receipt=receipt.members)
            elif line.startswith("many "):
                count = int(line.split()[1])
                await group.multicast_many([f"{name} {number}".encode() for number in range(count)])
            else:
                await group.multicast(line.encode())
        showing.cancel()


asyncio.run(main(sys.argv[1], sys.argv[2]))
