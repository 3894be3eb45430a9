"""Counts the share of inputs that a decoder accepts.

A test that tolerates refusals would also pass if everything were refused. So it counts, and states the least
share of its inputs that must be accepted: it knows how many of them are valid, or nearly so.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hopring.errors import PeerError


class Tally:
    """Counts accepted and refused inputs of one test."""

    def __init__(self, refusal: type[Exception] = PeerError) -> None:
        self.taken = 0
        self.refused = 0
        self._refusal = refusal

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Counts one input, which is decoded and checked in the block."""
        try:
            yield
        except self._refusal:
            self.refused += 1
        else:
            self.taken += 1

    def expect(self, share: float) -> None:
        """Checks that at least this share was accepted, and not everything."""
        total = self.taken + self.refused
        assert total, "there were no inputs"
        assert self.taken >= share * total, f"{self.taken} of {total} were accepted"
        assert self.refused, f"all {total} were accepted"
