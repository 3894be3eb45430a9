"""The bundles of the demonstration: 1 KB each, every one unlike all others, and damage to any shows."""

from typing import Final

BUNDLE_BYTES: Final = 1_024


def make_bundle(daemon: str, number: int) -> tuple[str, bytes]:
    """A bundle and its identity, which the trace calls it by."""
    identity = f"{daemon}-{number:05}"
    return identity, _fill(identity)


def identify(bundle: bytes) -> str:
    """The identity of a bundle that is as it was sent; anything else gets a name that nobody sent."""
    identity = bundle.partition(b" ")[0].decode(errors="replace")
    return identity if bundle == _fill(identity) else f"damaged {identity:.20}"


def _fill(identity: str) -> bytes:
    word = f"{identity} ".encode()
    return (word * (BUNDLE_BYTES // len(word) + 1))[:BUNDLE_BYTES]
