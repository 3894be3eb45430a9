"""The bundles of one site as one daemon knows them: three separate lines (thesis 5.1; C, H and HA there).

`cseq` counts sequences, `next_lts` and `stable_lts` are Lamport times. A promise takes effect only when all
bundles up to its sequence have arrived: links reorder, so a promise may overtake its data.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class SiteLine:
    """The lines of one site at one daemon."""

    cseq: int  # The highest contiguous sequence held.
    next_lts: int  # The lowest stamp that a bundle not held can carry.
    stable_lts: int  # Below it, every daemon of the site holds everything.
    highest: int = 0  # The highest sequence known to exist.
    ahead: dict[int, int] = field(default_factory=dict)  # Held above a gap: sequence to stamp.
    promises: dict[int, int] = field(default_factory=dict)  # Sequence to stamp, those above cseq only.

    def holds(self, seq: int) -> bool:
        """Whether this bundle is here."""
        return seq <= self.cseq or seq in self.ahead

    def hold(self, seq: int, lts: int) -> None:
        """Records that a bundle of the site has arrived."""
        self.highest = max(self.highest, seq)
        self.ahead[seq] = lts
        while self.cseq + 1 in self.ahead:
            self.cseq += 1
            self.next_lts = max(self.next_lts, self.ahead.pop(self.cseq) + 1)
        self._settle()

    def promise(self, seq: int, lts: int) -> None:
        """Records a promise: bundles beyond this sequence have at least this stamp."""
        self.highest = max(self.highest, seq)
        if seq <= self.cseq:
            self.next_lts = max(self.next_lts, lts)
        else:
            # Keyed by sequence, because many promises may name the same one while a gap is open.
            self.promises[seq] = max(lts, self.promises.get(seq, 0))

    def _settle(self) -> None:
        if not self.promises:
            return
        for seq in [seq for seq in self.promises if seq <= self.cseq]:
            self.next_lts = max(self.next_lts, self.promises.pop(seq))
