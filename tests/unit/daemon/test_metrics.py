"""Metrics and health of a member on real sockets."""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.free_ports import free_base_port
from tests.unit.daemon.membership_hosts import members_of
from tests.unit.daemon.waiting import run_until

from hopring.config import SecurityTuning, cluster_hash, config_digest, local_config
from hopring.daemon.admin import exposition
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.metrics import Metrics
from hopring.daemon.engines.membership_host import MembershipHost
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.engine import EngineOutput
from hopring.ids import Incarnation, Process
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.services import Service

CLEAR = SecurityTuning()
KEY, NEW = ClusterKey(b"1" * 32), ClusterKey(b"2" * 32)


class Watched:
    """A single daemon and its metrics."""

    def __init__(self, loop: Loop, keys: KeyRing | None = None, security: SecurityTuning = CLEAR) -> None:
        config = replace(local_config({"eu": 1}, base_port=free_base_port(2)), security=security)
        me = Process(config.daemon_id("eu1"), Incarnation(7))
        self.taken: list[EngineOutput] = []
        self.member = MembershipHost(loop, config, me, self._up, keys=keys)
        self.null = os.open(os.devnull, os.O_WRONLY)
        self.description = DaemonDescription(config, self.member, None, loop.now_us())
        self.metrics = Metrics(loop, DaemonLog("eu1", self.null), self.description)

    def _up(self, events: object) -> None:
        self.metrics.observe(events)  # type: ignore[arg-type]

    def value(self, name: str, **labels: str) -> float:
        for family in text_string_to_metric_families(self.metrics.page().body):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        raise AssertionError(f"no {name} {labels}")


@pytest.fixture
def watched(loop: Loop) -> Iterator[Watched]:
    watched = Watched(loop)
    yield watched
    watched.member.close()
    os.close(watched.null)


def test_a_daemon_is_alive_until_it_ends_and_ready_while_a_view_is_whole(loop: Loop, watched: Watched) -> None:
    before, alive = watched.metrics.ready(), watched.metrics.alive()
    assert (before.status, before.body) == (503, "no view is whole: search (start)\n")
    assert (alive.status, alive.body) == (200, "ok, no view is whole: search (start)\n")
    assert watched.value("hopring_healthy") == 0
    assert watched.value("hopring_state", state="search") == 1

    run_until(loop, lambda: watched.member.snapshot().settled)
    after, alive = watched.metrics.ready(), watched.metrics.alive()
    assert (after.status, after.body) == (200, "ready, view of 1 of 1 daemons\n")
    assert (alive.status, alive.body) == (200, "ok, view of 1 of 1 daemons\n")
    assert watched.value("hopring_healthy") == 1

    watched.metrics.leaving = True
    assert (watched.metrics.ready().status, watched.metrics.alive().status) == (503, 503)


def test_keys_are_metrics_by_id_and_state_and_insecurity_is_one(loop: Loop, watched: Watched) -> None:
    open_one = Watched(loop, None, SecurityTuning(insecure=True))
    sealed = Watched(loop, KeyRing([KEY, NEW], KEY.id))

    assert watched.value("hopring_insecure") == 0
    assert open_one.value("hopring_insecure") == 1
    assert "hopring_key_info{" not in open_one.metrics.page().body
    assert sealed.value("hopring_key_info", key=f"{KEY.id:08x}", state="use") == 1
    assert sealed.value("hopring_key_info", key=f"{NEW.id:08x}", state="accept") == 1
    assert sealed.value("hopring_key_missing_daemons") == 0
    for one in (open_one, sealed):
        one.member.close()
        os.close(one.null)


def test_listeners_that_are_missing_are_told_of(loop: Loop, watched: Watched) -> None:
    run_until(loop, lambda: watched.member.snapshot().settled)
    watched.description.problems = ("no socket; make one",)

    assert watched.metrics.ready().body == "ready, view of 1 of 1 daemons\nproblem: no socket; make one\n"
    assert watched.metrics.alive().body == "ok, view of 1 of 1 daemons\nproblem: no socket; make one\n"
    assert watched.value("hopring_listeners_missing") == 1


def test_metrics_and_answers_to_clients_do_not_tell_the_hash_that_datagrams_carry(watched: Watched) -> None:
    config = watched.description.config
    secret = f"{cluster_hash(config):08x}"
    answer = watched.description.answer(0)

    assert secret not in watched.metrics.page().body
    assert secret not in repr(answer)
    assert config_digest(config) in watched.metrics.page().body
    assert answer.config_digest == config_digest(config)


def test_sent_and_delivered_messages_are_counted_and_invalid_bundles_do_no_harm(
    loop: Loop, watched: Watched
) -> None:
    run_until(loop, lambda: watched.member.snapshot().settled)
    watched.member.submit(Service.AGREED, b"\x01short")
    run_until(loop, lambda: watched.value("hopring_bundles_delivered_total", service="agreed") == 1)

    assert watched.value("hopring_bundles_sent_total", service="agreed") == 1
    assert watched.value("hopring_bytes_delivered_total", service="agreed") == 6
    assert watched.value("hopring_views_total") >= 2


@pytest.mark.slow
def test_a_link_that_the_view_does_not_use_is_down_though_its_site_is_present(loop: Loop) -> None:
    config = local_config({"ap": 1, "eu": 1, "us": 1}, base_port=free_base_port(6))
    with members_of(loop, config) as members:
        run_until(loop, lambda: all(one.size() == 3 for one in members.values()))
        eu1 = DaemonDescription(config, members["eu1"].member, None, loop.now_us())
        assert [(one.peer, one.up) for one in eu1.configured_links(eu1.snapshot())] == [
            ("ap1", True),
            ("us1", True),
        ]

        members["eu1"].member.sockets.cut(["us1"])
        members["us1"].member.sockets.cut(["eu1"])

        def does_without_a_link() -> bool:
            snapshot = eu1.snapshot()
            overlay = snapshot.overlay
            return snapshot.settled and overlay is not None and any(one.cut for one in overlay.routes)

        run_until(loop, does_without_a_link, 60_000_000)
        assert [(one.site, one.up) for one in eu1.configured_links(eu1.snapshot())] == [
            ("ap", True),
            ("us", False),
        ]
        assert eu1.missing(eu1.snapshot()) == []


def test_labels_are_quoted() -> None:
    text = exposition.family("x", "gauge", "Help.", [({"reason": 'a "b"\\\nc'}, 1)])
    (family,) = text_string_to_metric_families(text)

    assert family.samples[0].labels == {"reason": 'a "b"\\\nc'}
