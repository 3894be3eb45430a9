"""A short run of `make fuzz` for peers: wrong packets are refused, and nothing ends, hangs or grows by them."""

import pytest
from tests.fuzz.peer_sockets import fuzz_sockets
from tests.fuzz.peers import DECODED_SHARE_MIN, PeerFuzzTotals, fuzz_world

from hopring.errors import Drop


@pytest.mark.slow
def test_peers_refuse_an_attacker_and_stand_wrong_packets_that_are_sealed_rightly() -> None:
    totals = PeerFuzzTotals()
    for seed in (3, 7, 8):
        for inside in (False, True):
            fuzz_world(seed, inside, totals)

    assert min(totals.packets.values()) > 1_000
    assert totals.decoded_share > DECODED_SHARE_MIN
    assert set(totals.refused) >= {Drop.KEY, Drop.SEAL, Drop.CLEAR_TEXT, Drop.FOREIGN_SENDER, Drop.REPLAY}


@pytest.mark.slow
def test_real_peers_go_on_while_an_attacker_sends_changed_datagrams() -> None:
    refused = fuzz_sockets(1, 3_000)

    assert {Drop.SEAL, Drop.FOREIGN_SENDER, Drop.CLUSTER} <= set(refused)
    assert sum(refused.values()) > 1_000
