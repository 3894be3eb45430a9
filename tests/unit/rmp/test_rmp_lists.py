"""Changes of RMP lists as pure functions, quorums, and the naming of groups."""

from dataclasses import replace

from hopring.rmp.lists.changes import changed, follower, founded, is_old, recovered
from hopring.rmp.lists.quorum import majority, may_go_on, needed
from hopring.rmp.naming import group_address
from hopring.wire.rmp.ids import Ballot, PeerProcess
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY, PeerList
from hopring.wire.rmp.packets import ListChange, ListChangeRequest

A, B, C, D, E = [PeerProcess(number, 1, number) for number in range(1, 6)]


def request(source: PeerProcess, change: ListChange, number: int = 1, minimum: int = 1) -> ListChangeRequest:
    return ListChangeRequest(source, change, number, "red", minimum)


def ring(*processes: PeerProcess, minimum: int = 1) -> PeerList:
    """A list of these, in this order."""
    first, *others = processes
    members = founded(Ballot(1, first), request(first, ListChange.JOIN, minimum=minimum))
    last = first
    for timestamp, one in enumerate(others, start=2):
        members = changed(members, request(one, ListChange.JOIN, minimum=minimum), last, timestamp, {})
        last = one
    return members


def test_a_joiner_stands_directly_behind_the_token_site() -> None:
    joined = changed(ring(A, B, C), request(D, ListChange.JOIN), B, 9, {})

    assert joined.processes == (A, B, D, C)
    assert joined.id.timestamp == 9


def test_a_leaver_is_left_out_and_the_others_keep_their_order() -> None:
    left = changed(ring(A, B, C, D), request(B, ListChange.LEAVE, 2), C, 9, {})

    assert left.processes == (A, C, D)


def test_a_list_has_the_numbers_of_its_members_last_packets() -> None:
    joined = changed(ring(A, B), replace(request(C, ListChange.JOIN), seq=40), A, 9, {A: 12, B: 3})

    assert {one.process: one.seq for one in joined.members} == {A: 12, C: 40, B: 3}


def test_a_request_that_was_carried_out_is_old() -> None:
    members = changed(ring(A, B), request(C, ListChange.JOIN, 5), A, 9, {})

    assert is_old(members, request(C, ListChange.JOIN, 5))
    assert not is_old(members, request(C, ListChange.LEAVE, 6))
    assert is_old(ring(A, B), request(C, ListChange.LEAVE, 6))
    assert not is_old(ring(A, B), request(C, ListChange.JOIN, 5))


def test_who_joins_again_is_another_member() -> None:
    before = ring(A, B, C)
    after = changed(before, request(B, ListChange.JOIN, 8), C, 9, {})

    assert after.processes == (A, C, B)
    assert len(before.memberships & after.memberships) == 2


def test_the_token_goes_round_and_over_one_that_has_left() -> None:
    before = ring(A, B, C, D)
    after = changed(before, request(B, ListChange.LEAVE, 2), B, 9, {})

    assert [follower(before, one) for one in (A, B, C, D)] == [B, C, D, A]
    assert follower(after, B, before) == C


def test_a_recovered_list_keeps_the_ring_order_and_the_joins() -> None:
    before = ring(A, B, C, D)
    after = recovered(before, Ballot(7, C), 30, {D, A, C}, {A: 4})

    assert after.processes == (A, C, D)
    assert after.memberships < before.memberships
    assert after.id.epoch == Ballot(7, C)


def test_a_majority_of_an_even_number_is_more_than_half() -> None:
    assert [majority(members) for members in range(1, 7)] == [1, 2, 2, 3, 3, 4]


def test_the_largest_minimum_counts() -> None:
    mixed = changed(ring(A, B, C), request(D, ListChange.JOIN, 1, 3), A, 9, {})

    assert needed(ring(A, B, C)) == 1
    assert needed(mixed) == 3
    assert needed(ring(A, B, C, D, minimum=MINIMUM_MAJORITY)) == 3
    assert needed(ring(A, B, C, D, minimum=MINIMUM_ALL)) == 4


def test_a_majority_is_needed_of_every_list_since_the_settled_one() -> None:
    """Trap 15: A takes in D and E, unheard by B and C: each side has most of the last list that it knows."""
    settled = ring(A, B, C, minimum=MINIMUM_MAJORITY)
    later = [
        changed(settled, request(D, ListChange.JOIN, 1, MINIMUM_MAJORITY), A, 9, {}),
    ]
    later.append(changed(later[0], request(E, ListChange.JOIN, 1, MINIMUM_MAJORITY), D, 10, {}))
    side = {one.membership for one in later[-1].members if one.process in (A, D, E)}
    other = {one.membership for one in settled.members if one.process in (B, C)}

    assert not may_go_on(side, settled, later, [])
    assert may_go_on(other, settled, [], [])


def test_an_acknowledged_list_counts_as_one_that_may_have_gone_on() -> None:
    """Trap 14: C has acknowledged ABC, which A and B committed, and meets D and E again."""
    settled = ring(A, B, C, D, E, minimum=MINIMUM_MAJORITY)
    acknowledged = recovered(settled, Ballot(2, A), 9, {A, B, C}, {})
    side = {one.membership for one in settled.members if one.process in (C, D, E)}

    assert may_go_on(side, settled, [], [])
    assert not may_go_on(side, settled, [], [acknowledged])


def test_names_give_addresses_of_organisation_scope_and_high_ports() -> None:
    found = [group_address("lab", f"group {number}") for number in range(500)]

    assert all(one.host.startswith("239.") and 32_768 <= one.port <= 65_535 for one in found)
    assert len({(one.address, one.port) for one in found}) == 500
    assert group_address("lab", "red") == group_address("lab", "red") != group_address("", "red")
