"""The other end of the bench of joined clusters, as a process of its own.

    python -m hopring.bench.wide.worker bare LAYER PORT MESSAGES
    python -m hopring.bench.wide.worker whole URL [MEMBER,...]

It answers so many messages with one. At the whole service the name of a conversation says how many. With the
names of members it answers each message with the moments when it was logged in this cluster, and when it came
here, by the monotonic clock that all processes of a host share.
"""

import asyncio
import json
import socket
import sys
import time
from typing import Final

from hopring.bench.wide.layers import layer_over
from hopring.blocks.log.replicated_log import ReplicatedLog
from hopring.client.aio import connect
from hopring.haul.entries import FramesReceived, decode_entry
from hopring.haul.ids import ClusterId
from hopring.haul.link.frames import ParcelFrame, decode_frame
from hopring.haul.member import LOG_NAME
from hopring.wide.library.events import WideMessage
from hopring.wide.library.sets import join

NEAR: Final = "one"
FAR: Final = "two"
"""The cluster that sends, and that of this process."""

SET: Final = "bench"
READY: Final = "ready"


def serve_bare(name: str, port: int, messages: int) -> None:
    """Answers until the other end has gone."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        layer = layer_over(name, connection, ClusterId(2), ClusterId(1))
        try:
            while True:
                for _ in range(messages):
                    body = layer.receive()
                layer.send(body)
        except (EOFError, ConnectionError):
            return


class LoggedMoments:
    """When parcels were logged in this cluster, as a follower of its log learns it."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._at_s: dict[int, float] = {}  # By the number of the other cluster's parcel.
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Notes the moment of each parcel."""
        async for operation in self._log.watch():
            entry = decode_entry(operation.data)
            if entry is None or not isinstance(entry.body, FramesReceived):
                continue
            now_s = time.monotonic()
            for encoded in entry.body.frames:
                frame = decode_frame(encoded)
                if isinstance(frame, ParcelFrame):
                    self._at_s.setdefault(frame.parcel.id.number, now_s)
            self._changed.set()

    async def of(self, number: int) -> float:
        """When this parcel was logged; waits until that is known."""
        while number not in self._at_s:
            self._changed.clear()
            await self._changed.wait()
        return self._at_s[number]


async def serve_counts(url: str) -> None:
    """Answers so many messages of a conversation with one, until it is ended."""
    async with connect(url, name="far") as session, join(session, SET) as joined:
        print(READY, flush=True)
        count = 0
        async for event in joined:
            if isinstance(event, WideMessage):
                count += 1
                if count == int(event.conversation):
                    count = 0
                    await joined.cbcast(event.data, to=NEAR)


async def serve_moments(url: str, members: list[str]) -> None:
    """Answers each message with its moments, until it is ended."""
    async with (
        connect(url, name="far") as session,
        connect(url, name="follower") as beside,
        join(session, SET) as joined,
        ReplicatedLog(beside, LOG_NAME, members=members) as log,
        asyncio.TaskGroup() as tasks,
    ):
        moments = LoggedMoments(log)
        tasks.create_task(moments.follow())
        print(READY, flush=True)
        async for event in joined:
            now_s = time.monotonic()
            if isinstance(event, WideMessage):
                found = {"logged_s": await moments.of(event.id.number), "client_s": now_s}
                await joined.cbcast(json.dumps(found).encode(), to=NEAR)


def main(arguments: list[str]) -> None:
    """Runs one of the kinds."""
    kind, first, *rest = arguments
    if kind == "bare":
        serve_bare(first, int(rest[0]), int(rest[1]))
    elif rest:
        asyncio.run(serve_moments(first, rest[0].split(",")))
    else:
        asyncio.run(serve_counts(first))


if __name__ == "__main__":
    main(sys.argv[1:])
