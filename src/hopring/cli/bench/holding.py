"""Sessions that only hold groups, so that there are many of both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from hopring.client.aio import Session, connect

HOLDERS: Final = 10
"""Sessions that the groups are spread over."""

AT_ONCE: Final = 50


@asynccontextmanager
async def held_session(url: str) -> AsyncIterator[Session]:
    """A session that is there for as long as the block."""
    session = await connect(url, membership=False)
    try:
        yield session
    finally:
        session.abort()  # All at once, and the daemons end anyway.


async def join_all(wanted: list[tuple[Session, str]]) -> None:
    """Joins, some at a time."""
    for at in range(0, len(wanted), AT_ONCE):
        await asyncio.gather(*[_join(*one) for one in wanted[at : at + AT_ONCE]])


async def _join(session: Session, name: str) -> None:
    await session.join(name)
