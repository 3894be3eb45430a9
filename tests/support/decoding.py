"""Counts the share of inputs that a decoder accepts.

A test that tolerates refusals would also pass if everything were refused. So it counts, and names the share of
its inputs that must be accepted at least: it knows how many of them are valid, or nearly so.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hopring.errors import PeerError


class Tally:
    """What became of the inputs of one test."""

    def __init__(self, refusal: type[Exception] = PeerError) -> None:
        self.taken = 0
        self.refused = 0
        self._refusal = refusal

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """One input: it is decoded and judged in here, or refused."""
        try:
            yield
        except self._refusal:
            self.refused += 1
        else:
            self.taken += 1

    def expect(self, share: float) -> None:
        """At least this share was taken, and not everything."""
        total = self.taken + self.refused
        assert total, "there were inputs"
        assert self.taken >= share * total, f"{self.taken} of {total} were taken"
        assert self.refused, f"all {total} were taken"
