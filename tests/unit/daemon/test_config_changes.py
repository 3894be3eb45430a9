"""Changes of the configuration that a running daemon can apply."""

from dataclasses import replace

from hopring.config import (
    AdminTuning,
    AdminVerb,
    ClientRight,
    ClientTuning,
    LinkConfig,
    LinkTuning,
    LogFormat,
    LogTuning,
    MembershipTuning,
    RingTuning,
    SpoolTuning,
    local_config,
)
from hopring.config.model import SpreadSlow
from hopring.daemon.process.config_changes import changes, tuned_sessions
from hopring.session.options import SessionOptions

OLD = local_config({"eu": 2, "us": 1}, {("eu", "us"): 40})


def test_nothing_changed() -> None:
    found = changes(OLD, OLD, "eu1")

    assert (found.live, found.rebuild, found.restart) == ((), (), ())


def test_limits_of_clients_and_the_log_change_at_once_but_for_the_window() -> None:
    new = replace(
        OLD,
        clients=ClientTuning(sessions_max=5, window_bytes=8192),
        log=LogTuning(LogFormat.JSON, every_us=1_000),
    )
    found = changes(OLD, new, "eu1")

    assert found.live == ("clients.sessions_max", "log.format", "log.every")
    assert found.restart == ("clients.window",)


def test_settings_for_spread_clients_change_at_once() -> None:
    clients = ClientTuning(
        allow=(ClientRight.BLOCK,), spread_slow=SpreadSlow.DROP, spread_access=("10.0.0.0/8",)
    )
    found = changes(OLD, replace(OLD, clients=clients), "eu1")

    assert found.live == ("clients.allow", "clients.spread_slow", "clients.spread_access")
    assert tuned_sessions(SessionOptions(), clients).spread_slow == "drop"
    assert tuned_sessions(SessionOptions(), clients).allow == ("block",)
    assert tuned_sessions(SessionOptions(), clients).spread_access == ("10.0.0.0/8",)


def test_shared_settings_and_tuning_of_links_and_rings_need_another_view() -> None:
    eu, us = OLD.sites
    daemon = replace(us.daemons[0], address="127.0.0.9")
    new = replace(
        OLD,
        sites=(replace(eu, ring=RingTuning(hold_us=1_000)), replace(us, daemons=(daemon,))),
        links=(LinkConfig(("eu", "us"), 40, tuning=LinkTuning(silence_us=5_000_000)),),
    )
    new = replace(new, membership=MembershipTuning(update_delta_us=5_000))
    found = changes(OLD, new, "eu1")

    assert found.rebuild == (
        "daemons",
        "sites.eu.ring.hold",
        "links.eu-us.silence",
        "membership.update_delta",
    )
    assert found.restart == ()


def test_sites_and_daemons_that_come_and_go_need_another_view() -> None:
    more = local_config({"eu": 3, "asia": 1}, {("asia", "eu"): 40})

    assert changes(OLD, more, "eu1").rebuild == ("sites", "daemons", "links")


def test_another_cluster_or_another_address_of_its_own_needs_a_restart_and_nothing_is_changed_before() -> None:
    eu, us = OLD.sites
    daemon = replace(us.daemons[0], port=4)
    new = replace(OLD, sites=(replace(eu, ring=RingTuning(hold_us=1_000)), replace(us, daemons=(daemon,))))

    assert changes(OLD, new, "eu1").rebuild == ("daemons", "sites.eu.ring.hold")
    assert changes(OLD, new, "us1").rebuild == ()
    assert changes(OLD, new, "us1").restart == ("daemons", "sites.eu.ring.hold")
    assert changes(OLD, replace(OLD, cluster="other"), "eu1").restart == ("cluster",)


def test_other_spools_need_a_restart() -> None:
    assert changes(OLD, replace(OLD, spool=SpoolTuning("spool", ("trades",))), "eu1").restart == ("spool",)


def test_another_client_port_needs_a_restart_of_that_daemon_only() -> None:
    eu, us = OLD.sites
    new = replace(OLD, sites=(eu, replace(us, daemons=(replace(us.daemons[0], client_port=None),))))

    assert changes(OLD, new, "eu1").restart == ()
    assert changes(OLD, new, "us1").restart == ("us1.client_port",)

    new = replace(OLD, sites=(eu, replace(us, daemons=(replace(us.daemons[0], spread_port=4803),))))
    assert changes(OLD, new, "us1").restart == ("us1.spread_port",)


def test_admin_permissions_change_at_once_and_the_admin_socket_needs_a_restart() -> None:
    new = replace(OLD, admin=AdminTuning("/run/{name}.admin", 0o660, (AdminVerb.CUT,)))
    found = changes(OLD, new, "eu1")

    assert (found.live, found.restart) == (("admin.allow",), ("admin.socket", "admin.mode"))


def test_a_daemon_that_moves_to_another_site_needs_another_view() -> None:
    eu, us = OLD.sites
    moved = replace(
        OLD, sites=(replace(eu, daemons=eu.daemons[:1]), replace(us, daemons=(*us.daemons, eu.daemons[1])))
    )

    assert changes(OLD, moved, "eu1").rebuild == ("daemons",)


def test_a_removed_setting_has_its_default_again() -> None:
    before = SessionOptions(sessions_max=5, window_bytes=8192)
    after = tuned_sessions(before, ClientTuning(groups_max=7))

    assert after == SessionOptions(groups_max=7, window_bytes=8192)
