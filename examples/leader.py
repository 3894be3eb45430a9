"""A leader: of all programs that run this, one at a time does the work, and says with which fence.

hop up                                        in another terminal
python examples/leader.py hop://localhost:4893 anna
"""

import asyncio
import sys

from hopring import LockLost, NotPrimary, connect


async def main(url: str, name: str) -> None:
    """Leads whenever it is elected, through crashes and splits."""
    async with connect(url, name=name) as session, session.join("workers") as group:
        while True:
            try:
                async with group.elect() as fence:
                    print(f"{name} leads with fence {fence}", flush=True)
                    await asyncio.sleep(3600)  # The work; it is cancelled if the lock is lost.
            except (LockLost, NotPrimary) as error:
                print(f"{name} does not lead: {error}", flush=True)
                await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
