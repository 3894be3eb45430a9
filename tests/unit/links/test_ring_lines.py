"""Lines of the members on the token, for resilient bundles. This member is the second of three."""

import pytest
from tests.unit.links.rings import A, make_ring, token

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId
from hopring.links.ring.events import FromMember, Passed, Release, TransmitTo
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import Ring, open_ring
from hopring.wire.ring import Token


def visit(ring: Ring, frame: Token, release: Release) -> tuple[Token, Passed]:
    """Lets a token come and go; returns the token that is passed on, and the end of the visit."""
    ring.step(FromMember(A, frame), now_us=0)
    outputs = ring.step(release, now_us=0)
    passed = outputs[-1]
    [left] = [out.frames[0] for out in outputs if isinstance(out, TransmitTo)]
    assert isinstance(left, Token)
    assert isinstance(passed, Passed)
    return left, passed


def waiting(resilient_lts: int = 0, local_aru: int = 7) -> Release:
    return Release(0, 9, local_aru, resilient_lts=resilient_lts)


def test_without_resilient_bundles_the_token_has_no_lines() -> None:
    left, passed = visit(make_ring(), token(1, site_lts=9), waiting())

    assert (left.lines, left.lines_lts, passed.lines) == ((), 0, ())


def test_a_member_that_waits_adds_the_lines_and_writes_its_own() -> None:
    left, passed = visit(make_ring(), token(1, site_lts=9), waiting(resilient_lts=6))

    assert (left.lines, left.lines_lts) == ((0, 7, 0), 6)
    assert passed.lines == (0, 7, 0)


def test_a_member_that_does_not_wait_writes_its_own_line_for_the_others() -> None:
    left, _ = visit(make_ring(), token(1, site_lts=9, lines=(9, 2, 5), lines_lts=8), waiting())

    assert (left.lines, left.lines_lts) == ((9, 7, 5), 8)


def test_the_lines_go_when_all_members_are_beyond_the_last_resilient_bundle() -> None:
    ring = make_ring()
    visit(ring, token(1, site_lts=9, site_aru=7), waiting(resilient_lts=6))
    left, _ = visit(ring, token(4, site_lts=9, site_aru=7, lines=(7, 7, 7), lines_lts=6), waiting(6))
    assert left.lines == (7, 7, 7), "the line of the site counts after two visits"

    left, passed = visit(ring, token(7, site_lts=9, site_aru=7, lines=(7, 7, 7), lines_lts=6), waiting(6))

    assert (left.lines, left.lines_lts, passed.lines) == ((), 0, ())
    assert passed.site_aru == 7


def test_a_line_that_changes_keeps_the_token_from_becoming_idle() -> None:
    ring = make_ring()
    visit(ring, token(1, site_lts=9, site_aru=5), waiting(resilient_lts=6, local_aru=5))
    same, _ = visit(
        ring, token(4, site_lts=9, site_aru=5, lines=(7, 5, 7), lines_lts=6, quiet=4), waiting(6, local_aru=5)
    )
    other, _ = visit(
        ring, token(7, site_lts=9, site_aru=5, lines=(7, 5, 7), lines_lts=6, quiet=4), waiting(6, local_aru=6)
    )

    assert (same.quiet, other.quiet) == (5, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"lines": (1, 1)}, Drop.INCONSISTENT),
        ({"lines": (1, 1, 1, 1)}, Drop.INCONSISTENT),
        ({"lines": (1, 11, 1)}, Drop.OUT_OF_WINDOW),
        ({"lines": (1, 1, 1), "lines_lts": 10}, Drop.OUT_OF_WINDOW),
    ],
)
def test_lines_that_cannot_be_true_are_refused(fields: dict[str, object], reason: Drop) -> None:
    ring = make_ring()
    before = (ring.state.expected, ring.state.passed)

    with pytest.raises(PeerError) as caught:
        ring.step(FromMember(A, token(1, site_lts=9).replace(**fields)), now_us=0)

    assert caught.value.reason is reason
    assert (ring.state.expected, ring.state.passed) == before


def test_lines_and_requests_share_one_datagram() -> None:
    options = RingOptions(segment_bytes=700)

    assert options.requests_beside(3) < options.requests_max
    assert options.requests_beside(200) < 1


def test_a_ring_with_more_members_than_a_token_has_room_for_sends_no_lines() -> None:
    members = tuple([DaemonId(number) for number in range(1, 201)])
    ring = open_ring(DaemonId(2), members, RingOptions(segment_bytes=700), initial_seq=0, now_us=0)

    left, passed = visit(ring, token(1, site_lts=9), waiting(resilient_lts=6))

    assert (left.lines, passed.lines) == ((), ())
