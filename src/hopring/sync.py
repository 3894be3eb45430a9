"""The client library without asyncio: `hopring.sync.connect`. The names of `hopring`, and calls that wait."""

from hopring.client.blocking import Group, Session, connect

__all__ = ["Group", "Session", "connect"]
