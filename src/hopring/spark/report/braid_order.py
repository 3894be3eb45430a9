"""In which order strands lie, so that few of them cross. Pure.

A split parts the order where it parts the daemons: blocks of daemons are refined by each partition, the one
that lasted longest first. Where two partitions cannot both be had without crossings, the shorter one crosses.
"""

from collections.abc import Sequence

Parts = Sequence[tuple[str, ...]]


def ranks(daemons: Sequence[str], partitions: Sequence[tuple[int, Parts]]) -> dict[str, int]:
    """The place of each daemon, from 0; the partitions come with how long they lasted."""
    lasted: dict[frozenset[tuple[str, ...]], int] = {}
    for span_us, parts in partitions:
        key = frozenset(tuple(sorted(part)) for part in parts)
        lasted[key] = lasted.get(key, 0) + span_us
    blocks = [list(daemons)] if daemons else []
    for key in sorted(lasted, key=lambda one: (-lasted[one], sorted(one))):
        if len(key) > 1:
            blocks = _refined(blocks, {daemon: part for part in key for daemon in part})
    return {daemon: at for at, daemon in enumerate([one for block in blocks for one in block])}


def _refined(blocks: list[list[str]], part_of: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """Each block falls apart; what belongs to the blocks beside it goes to that side."""
    out: list[list[str]] = []
    for at, block in enumerate(blocks):
        pieces: dict[tuple[str, ...], list[str]] = {}
        part = next((part_of[daemon] for daemon in block if daemon in part_of), ())
        for daemon in block:
            part = part_of.get(
                daemon, part
            )  # Who is not there parts nobody: it stays beside the one before it.
            pieces.setdefault(part, []).append(daemon)
        before = {part_of[daemon] for daemon in out[-1] if daemon in part_of} if out else set()
        behind = {part_of[daemon] for later in blocks[at + 1 :] for daemon in later if daemon in part_of}
        keyed = [
            (_side(part, before, behind), number, them) for number, (part, them) in enumerate(pieces.items())
        ]
        out += [them for _, _, them in sorted(keyed)]
    return out


def _side(part: tuple[str, ...], before: set[tuple[str, ...]], behind: set[tuple[str, ...]]) -> int:
    return 0 if part in before else 2 if part in behind else 1
