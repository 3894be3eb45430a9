"""A durable queue: work_queue.py URL NAME DIRECTORY [JOB ...] puts jobs, then does those that wait.

anna, bert and carl keep it, each in a directory of its own. Others need none, and say -."""

import asyncio
import sys

from hopring import ClaimLost, NoQuorum, WorkQueue, connect

MEMBERS = ["anna", "bert", "carl"]


async def main(url: str, name: str, directory: str, *jobs: str) -> None:
    where = directory if name in MEMBERS else None
    async with (
        connect(url, name=name, reconnect=True) as session,
        WorkQueue(session, "jobs", members=MEMBERS, directory=where) as queue,
    ):
        print("ready", flush=True)
        for job in jobs:
            print("put", await queue.put(job.encode()), flush=True)
        async for one in queue.jobs(visibility_seconds=5.0):
            try:
                await one.done()  # After the work: what crashes before that is done by another.
                print("done", one.data.decode(), flush=True)
            except (ClaimLost, NoQuorum) as error:
                print("not done", one.data.decode(), error, flush=True)


asyncio.run(main(*sys.argv[1:]))
