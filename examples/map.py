"""A replicated map: map.py URL KEY=VALUE ... puts these into the map of all, and prints every change."""

import asyncio
import json
import sys

from hopring import Message, Ready, connect


class Map(dict[str, str]):
    def snapshot(self) -> bytes:
        return json.dumps(self).encode()

    def restore(self, state: bytes) -> None:
        self.clear()
        self.update(json.loads(state))


async def main(url: str, *words: str) -> None:
    entries = Map()
    async with connect(url) as session, session.join("map", state=entries) as group:
        await group.multicast(json.dumps(dict(word.split("=") for word in words)).encode())
        async for event in group:
            if isinstance(event, Message):
                entries.update(json.loads(event.data))
            if isinstance(event, Message | Ready):
                print(json.dumps(entries, sort_keys=True), flush=True)


asyncio.run(main(*sys.argv[1:]))
