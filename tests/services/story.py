"""Uses a seventh service in every layer: `python -m tests.services.story core`, or `... spark DIRECTORY`.

This runs in its own process, so that every module of hopring is imported with the seventh row of the table. It
has no rules for the service beyond what follows from its capabilities.
"""

# ruff: noqa: E402  hopring is imported once the seventh service is there.

import re
import sys
from pathlib import Path

from tests.services.seventh import install

install()

from tests.unit.check.evs_c_notation import client_history
from tests.unit.check.evs_notation import history

from hopring.check.judge import check_evs, check_evs_c
from hopring.check.picture.svg import SERVICES as COLOURS
from hopring.check.properties.property import Verdict
from hopring.check.properties.sql import numbers
from hopring.check.trace import ClientDelivered, Event, MessageDelivered
from hopring.check.trace_files import write_parquet
from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.ordering.entry import OrderedMessage
from hopring.ordering.order import new_order
from hopring.services import Service
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WorldKind
from hopring.spread.bits import SERVICE_BITS, Bits
from hopring.wire.routed import Meta

TOTAL = Service["TOTAL"]

# Two daemons that deliver two messages in opposite orders; a sender whose second message comes first.
SWAPPED = """
    a: view 1 ab | send 1 {0} | deliver a:1 | deliver b:2
    b: view 1 ab | send 2 {0} | deliver b:2 | deliver a:1
"""
OVERTAKEN = """
    a: view red 1.1 ab | send 2 {0} | send 1 {0} | got a:1 | got a:2
    b: view red 1.1 ab | got a:1 | got a:2
"""


def broken(verdicts: list[Verdict]) -> set[str]:
    """The numbers of the broken properties."""
    return {verdict.property.removeprefix("EVS-C ").split()[0] for verdict in verdicts if not verdict}


def at_its_turn() -> None:
    """It waits for its turn in the order of a view, as an Agreed message does, but not for stability."""
    here, there = SiteId(0), SiteId(1)
    order = new_order((here, there), start_lts=0)
    message = OrderedMessage(TOTAL, DaemonId(0), 1, b"body")

    assert order.hold(Meta(here, 1, 5, SiteMask(0b11), 0), message) == []
    assert order.deliver() == [], "delivered while the other site may still use a lower stamp"
    order.promise(there, 0, 9)

    assert [entry.message for entry in order.deliver()] == [message]
    assert order.waiting_for_holders == 0


def in_the_campaign() -> list[Event]:
    """Worlds with splits, crashes and clients use it like every service; both checkers find no violation."""
    events: list[Event] = []
    for seed in range(1, 5):
        for clients in (False, True):
            outcome = run_seed(seed, WorldKind(clients))
            assert not outcome.broken, f"seed {seed}: {outcome.broken}"
            events += outcome.history
    for kind in (MessageDelivered, ClientDelivered):
        assert any(isinstance(one, kind) and one.service is TOTAL for one in events)
    return events


def by_the_checkers() -> None:
    """A wrong order is a violation, and an overtaken message of the same sender is not."""
    assert "2.13(2)" in broken(check_evs(history(SWAPPED.format("total")), False))
    assert "2.13(2)" not in broken(check_evs(history(SWAPPED.format("reliable")), False))
    assert "2.11" in broken(check_evs_c(client_history(OVERTAKEN.format("agreed")), True))
    assert "2.11" not in broken(check_evs_c(client_history(OVERTAKEN.format("total")), True))


def by_the_text_of_queries() -> None:
    """Queries ask for capabilities, and so for the service."""
    number = str(int(TOTAL))
    for services in (numbers("total"), numbers("reliable")):
        assert number in re.findall(r"\d+", services)
    for services in (numbers("fifo"), numbers("stable")):
        assert number not in re.findall(r"\d+", services)


def by_a_query(directory: Path) -> None:
    """The audit with Spark agrees with the plain checkers."""
    from hopring.spark import session  # noqa: PLC0415  An extra.
    from hopring.spark.audit import Ends, audit, read_trace  # noqa: PLC0415
    from hopring.spark.session import SMALL  # noqa: PLC0415

    wrong = history(SWAPPED.format("total"))
    write_parquet(wrong, directory / "trace.parquet")
    spark = session("services", settings=SMALL)
    # The kernel runs in processes that have six services.
    report = audit(spark, read_trace(spark, str(directory)), otherwise=Ends(), engine="queries")

    assert report.broken("") == {one.property for one in check_evs(wrong, False) if not one}
    assert {name.split()[0] for name in report.broken("")} >= {"2.13(2)", "one"}


def main() -> None:
    """Runs the checks that the arguments name."""
    if sys.argv[1] == "spark":
        by_a_query(Path(sys.argv[2]))
        return
    at_its_turn()
    by_the_checkers()
    by_the_text_of_queries()
    in_the_campaign()
    assert TOTAL in COLOURS
    assert SERVICE_BITS[TOTAL] == Bits.CAUSAL, "the weakest of Spread's services that promises as much"


if __name__ == "__main__":
    main()
