"""The root errors of hopring: whose mistake it is decides the kind.

The application's mistake is a `HopError`; a peer's mistake is a `PeerError`, which a driver turns into a
dropped packet and a count under its reason. Our own mistakes are plain assertions.
"""

from enum import StrEnum


class HopError(Exception):
    """Root of every error that hopring raises on purpose."""


class ChannelRefused(HopError):
    """No encrypted channel to a daemon could be made, or it broke; the connection is given up."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class Drop(StrEnum):
    """Reasons for dropping a packet; drivers count drops by these names."""

    MAGIC = "magic"
    VERSION = "version"
    CLUSTER = "cluster"
    TRUNCATED = "truncated"
    LENGTH = "length"
    UNKNOWN_TYPE = "unknown_type"
    FOREIGN_SENDER = "foreign_sender"
    STALE_INCARNATION = "stale_incarnation"
    STALE_GENERATION = "stale_generation"
    OUT_OF_WINDOW = "out_of_window"
    INCONSISTENT = "inconsistent"
    LIMIT = "limit"
    CLEAR_TEXT = "clear_text"
    KEY = "unknown_key"
    SEAL = "wrong_seal"
    REPLAY = "replay"
    UNMET = "not_met"
    HANDSHAKE = "tls_handshake"
    CERTIFICATE = "certificate"


class PeerError(HopError):
    """A peer sent something that no correct peer sends; no state has changed."""

    def __init__(self, reason: Drop, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
