"""Daemons with cluster keys on real sockets: one view, messages of every size, rotation, foreign keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.membership_hosts import Watched, patient, two_sites
from tests.unit.daemon.waiting import run_until

from hopring.config import Config, local_config
from hopring.daemon.loop.event_loop import Loop
from hopring.errors import Drop
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.services import Service

KEY, NEW = ClusterKey(b"1" * 32), ClusterKey(b"2" * 32)
RING = KeyRing([KEY], KEY.id)
SIZES = (1, 1_300, 1_400, 5_000, 62_000, 100_000)


@contextmanager
def members(
    loop: Loop, config: Config, rings: dict[str, KeyRing | None] | None = None
) -> Iterator[dict[str, Watched]]:
    made = {
        one.name: Watched(loop, config, one.name, (rings or {}).get(one.name, RING)) for one in config.daemons
    }
    try:
        yield made
    finally:
        for one in made.values():
            one.member.close()


def all_have(every: dict[str, Watched], sent: int) -> bool:
    return all(len(one.payloads()) == sent for one in every.values())


def dropped(one: Watched) -> dict[Drop, int]:
    return dict(one.member.socket_report().decoding.dropped)


@pytest.mark.slow
def test_daemons_with_one_key_form_a_view_and_exchange_messages_of_every_size(loop: Loop) -> None:
    with members(loop, two_sites()) as every:
        run_until(loop, lambda: all(one.size() == 4 for one in every.values()))
        for size in SIZES:
            every["eu1"].member.submit(Service.AGREED, bytes(size))
            every["us2"].member.submit(Service.SAFE, bytes(size))
        run_until(loop, lambda: all(len(one.payloads()) == 2 * len(SIZES) for one in every.values()))

        assert all(sorted(map(len, one.payloads())) == sorted([*SIZES, *SIZES]) for one in every.values())
        assert all(Drop.SEAL not in dropped(one) and Drop.KEY not in dropped(one) for one in every.values())


@pytest.mark.slow
def test_a_daemon_with_another_key_or_none_stays_alone_and_says_why(loop: Loop) -> None:
    config = patient(local_config({"eu": 4}, {}, base_port=free_base_port(8)))
    rings: dict[str, KeyRing | None] = {"eu3": KeyRing([NEW], NEW.id), "eu4": None}
    with members(loop, config, rings) as every:
        told: list[str] = []
        every["eu1"].member.report_foreign(lambda _address, detail: told.append(detail))
        run_until(loop, lambda: every["eu1"].size() == 2 and Drop.KEY in dropped(every["eu1"]))
        run_until(loop, lambda: Drop.CLEAR_TEXT in dropped(every["eu1"]))
        run_until(loop, lambda: Drop.VERSION in dropped(every["eu4"]))

        assert every["eu3"].size() == 1
        assert every["eu4"].size() == 1
        assert any(f"key {NEW.id:08x}, which this daemon does not have" in text for text in told)
        assert any("without encryption" in text for text in told)


@pytest.mark.slow
def test_keys_change_under_load_without_a_view_change_or_a_lost_message(loop: Loop) -> None:
    rings = KeyRing([KEY, NEW], KEY.id), KeyRing([KEY, NEW], NEW.id), KeyRing([NEW], NEW.id)
    with members(loop, two_sites()) as every:
        run_until(loop, lambda: all(one.size() == 4 for one in every.values()))
        views = {name: one.installed() for name, one in every.items()}
        sent = 0
        for ring in rings:
            for one in every.values():
                one.member.change_keys(ring)
                for sender in every.values():
                    sender.member.submit(Service.AGREED, b"%d" % sent)
                    sent += 1
                run_until(loop, partial(all_have, every, sent))
        sealings = [one.member.sockets.datagrams.sealing for one in every.values()]

        assert {one.installed() for one in every.values()} == set(views.values())
        assert {None if sealing is None else sealing.key_in_use for sealing in sealings} == {NEW.id}
