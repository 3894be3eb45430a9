"""The generation of an attempt's network: its view id, folded into the 64 bits that a header has for it."""

from hashlib import blake2b

from hopring.ids import Generation, ViewId


def generation_of(view: ViewId) -> Generation:
    """The same at all members; unlike that of any other attempt, but for a chance of one in 2**64."""
    text = b"%d/%d/%d" % view
    return Generation(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))
