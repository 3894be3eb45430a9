"""The token's list of requests, taken apart by sequence and put together again.

While it is worked on, the list is a dict from the sequence of a packet to a bit for each segment asked for;
no bits ask for the whole packet.
"""

from hopring.wire.data import Missing


def expand(missing: tuple[Missing, ...], above: int, upto: int) -> dict[int, int]:
    """What the list asks for among the packets above the one and up to the other sequence.

    The bounds keep the work small, whatever a peer writes on the token.
    """
    wanted: dict[int, int] = {}
    for one in missing:
        for seq in range(max(one.seq, above + 1), min(one.seq + one.count, upto + 1)):
            want(wanted, seq, one.segments)
    return wanted


def want(wanted: dict[int, int], seq: int, segments: int) -> None:
    """Adds a request to those of others for the same packet."""
    before = wanted.get(seq, segments)
    wanted[seq] = before | segments if before and segments else 0


def collapse(wanted: dict[int, int], requests_max: int) -> tuple[Missing, ...]:
    """The list for the token, lowest first, as far as it has room: the rest is asked for later."""
    requests: list[Missing] = []
    for seq in sorted(wanted):
        last = requests[-1] if requests else None
        if last and not last.segments and not wanted[seq] and seq == last.seq + last.count:
            requests[-1] = Missing(last.seq, last.count + 1)
        elif len(requests) < requests_max:
            requests.append(Missing(seq, 1, wanted[seq]))
        else:
            break
    return tuple(requests)
