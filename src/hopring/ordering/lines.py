"""What one daemon knows of one site's bundles: three lines, never mixed (thesis 5.1; C, H and HA there).

`cseq` counts sequences, `next_lts` and `stable_lts` are Lamport times. A promise counts only once everything it
speaks of has arrived: links reorder, so a promise may overtake its data.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class SiteLine:
    """One site, as seen from one daemon."""

    cseq: int  # The highest contiguous sequence held.
    next_lts: int  # The lowest stamp that a bundle not held can carry.
    stable_lts: int  # Below it, every daemon of the site holds everything.
    highest: int = 0  # The highest sequence known to exist.
    ahead: dict[int, int] = field(default_factory=dict)  # Held above a gap: sequence to stamp.
    promises: list[tuple[int, int]] = field(default_factory=list)  # (sequence, stamp), not yet covered by cseq.

    def holds(self, seq: int) -> bool:
        """Whether this bundle is here."""
        return seq <= self.cseq or seq in self.ahead

    def hold(self, seq: int, lts: int) -> None:
        """A bundle has come."""
        self.highest = max(self.highest, seq)
        self.ahead[seq] = lts
        while self.cseq + 1 in self.ahead:
            self.cseq += 1
            self.next_lts = max(self.next_lts, self.ahead.pop(self.cseq) + 1)
        self._settle()

    def promise(self, seq: int, lts: int) -> None:
        """Beyond this sequence, nothing below this stamp will come."""
        self.highest = max(self.highest, seq)
        if seq <= self.cseq:
            self.next_lts = max(self.next_lts, lts)
        else:
            self.promises.append((seq, lts))

    def _settle(self) -> None:
        if not self.promises:
            return
        for seq, lts in self.promises:
            if seq <= self.cseq:
                self.next_lts = max(self.next_lts, lts)
        self.promises = [one for one in self.promises if one[0] > self.cseq]
