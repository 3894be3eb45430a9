"""The stages of the pipeline, on tables of a few rows."""

import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.spark.histories import jobs_of
from tests.spark.literals import at, bodies, gap, record, records, shown, trace, values
from tests.unit.spark.spooling import fill

from hopring.check.trace import (
    ClientConnected,
    ClientDelivered,
    ClientSent,
    Counters,
    Crash,
    Event,
    Gone,
    GroupInstalled,
    GroupViewName,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
    ViewName,
)
from hopring.services import Service
from hopring.spool.archive import archive

pytest.importorskip("pyspark", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

EU, US = ProcessName("eu1", 1), ProcessName("us1", 2)
ONE, TWO = ViewName(1, 0, 1), ViewName(2, 0, 1)
VIEW_1 = "0000000000000001.0001.fffffffffffffffb"
VIEW_2 = "0000000000000002.0001.fffffffffffffffb"
VIEW_3 = "0000000000000003.0001.fffffffffffffffb"


def test_a_message_has_one_row_with_the_spools_that_hold_it(spark: Any) -> None:
    from hopring.spark.pipeline.reconcile import messages  # noqa: PLC0415  Needs the extra.

    found = messages(
        records(
            spark,
            [
                *[record("eu", 0, kind="view"), record("us", 7, kind="view")],
                *[record("eu", 1, place=(10, 0)), record("us", 8, place=(10, 0))],
                *[record("eu", 2, place=(10, 1)), record("eu", 1, place=(10, 1), group="h")],
                record("us", 9, view=(2, 0), place=(10, 0)),
                *[record("eu", 3, service="unreliable"), record("us", 10, service="unreliable")],
            ],
        )
    )

    assert values(found, "message", "view", "copies", "spools") == [
        (f"{VIEW_1}:10:0:0", VIEW_1, 2, ["eu", "us"]),
        (f"{VIEW_1}:10:0:1", VIEW_1, 2, ["eu"]),
        (f"{VIEW_2}:10:0:0", VIEW_2, 1, ["us"]),
        ("eu/g/3", VIEW_1, 1, ["eu"]),
        ("us/g/10", VIEW_1, 1, ["us"]),
    ]
    one = found.where("copies = 2 AND number = 0").first()
    assert (one.received, one.received_last, bytes(one.payload)) == (
        at(1).replace(tzinfo=None),
        at(8).replace(tzinfo=None),
        b"body",
    )


def test_gaps_are_found_and_explained(spark: Any) -> None:
    from hopring.spark.pipeline.reconcile import gaps  # noqa: PLC0415  Needs the extra.

    eu = [
        # In view 1, together with the others, it lacks message 12 and has 13 after the signal.
        *[record("eu", 3, kind="view"), record("eu", 4, place=(11, 0))],
        *[record("eu", 5, kind="transition"), record("eu", 6, place=(13, 0))],
        # On its own side in view 2, with a hole.
        *[record("eu", 7, (2, 0), kind="view"), record("eu", 9, (2, 0), place=(20, 0))],
        # Together again; the spooler is absent for a while.
        *[record("eu", 10, (4, 0), kind="view"), record("eu", 11, (4, 0), place=(40, 0))],
        *[record("eu", 12, (0, 0), kind="gap", seconds=19), record("eu", 13, (5, 0), kind="view", seconds=20)],
        record("eu", 14, (5, 0), place=(51, 0), seconds=21),
        record("eu", 15, (6, 0), kind="view", seconds=22),
    ]
    us = [
        *[record("us", 0, kind="view", seconds=3), record("us", 1, place=(11, 0), seconds=4)],
        record("us", 2, place=(12, 0), seconds=4),
        *[record("us", 3, (3, 0), kind="view", seconds=7), record("us", 4, (3, 0), place=(30, 0), seconds=8)],
        *[record("us", 5, (4, 0), kind="view", seconds=10), record("us", 6, (4, 0), place=(40, 0), seconds=11)],
        record("us", 7, (4, 0), place=(41, 0), seconds=15),
        *[record("us", 8, (5, 0), kind="view", seconds=20), record("us", 9, (5, 0), place=(51, 0), seconds=21)],
        record("us", 10, (5, 0), place=(50, 0), seconds=21),
        record("us", 11, (6, 0), kind="view", seconds=22),
    ]
    said = [gap("eu", 12, 12, 19, "the spooler was not running")]

    found = gaps(records(spark, eu + us), bodies(spark, said))

    split = "it was in other views then: on the other side of a split, or not a member"
    closing = "the view was closing: the other side of a split delivered them"
    unknown = "no reason is known: messages of this service are promised to all in a view"
    assert values(found, "spool", "kind", "view", "messages", "others", "explained", "explanation") == [
        ("eu", "away", None, None, None, True, "the spooler was not running"),
        ("eu", "messages", f"{VIEW_1}-00000000", 1, ["us"], True, closing),
        (
            *("eu", "messages", "0000000000000004.0001.fffffffffffffffb-00000000", 1, ["us"], True),
            "it was away: the spooler was not running",
        ),
        ("eu", "messages", "0000000000000005.0001.fffffffffffffffb-00000000", 1, ["us"], False, unknown),
        ("eu", "offsets", None, None, None, True, "damaged, or not in the archive"),
        ("eu", "offsets", None, None, None, True, "retention has removed them"),
        ("eu", "views", f"{VIEW_3}-00000000", 1, ["us"], True, split),
        ("us", "messages", f"{VIEW_1}-00000000", 1, ["eu"], False, unknown),
        ("us", "views", f"{VIEW_2}-00000000", 1, ["eu"], True, split),
    ]
    holes = found.where("kind = 'offsets'")
    assert values(holes, "from_offset", "to_offset") == [(0, 3), (8, 9)]


def whole_spool(name: str, group: str, views: list[list[tuple[int, int]]]) -> list[tuple[Any, ...]]:
    """A spool that has all messages of these views; the second one ends by a transition."""
    found: list[tuple[Any, ...]] = []
    for places in views:
        view = (places[0][0] // 10, 0)
        found.append(record(name, len(found), view, kind="view", group=group))
        found += [record(name, len(found) + at, view, place, group=group) for at, place in enumerate(places)]
        if view[0] in (2, 3):
            found.append(record(name, len(found), view, kind="transition", group=group))
    return found


def test_a_spool_that_is_behind_or_has_older_records_removed_has_no_unexplained_gap(spark: Any) -> None:
    """Two whole spools are read up to any two points, or from any two points on: each pair is a group."""
    from hopring.spark.pipeline.reconcile import gaps  # noqa: PLC0415  Needs the extra.

    both = [[(10, 0), (10, 1), (11, 0)], [(40, 0), (41, 0)], [(50, 0), (51, 0), (52, 0)]]
    apart = {"eu": [(20, 0), (21, 0)], "us": [(30, 0)]}

    def whole(name: str, group: str) -> list[tuple[Any, ...]]:
        return whole_spool(name, group, [both[0], apart[name], *both[1:]])

    found: list[tuple[Any, ...]] = []
    lengths = [range(len(whole(name, "")) + 1) for name in apart]
    pairs = [(way, eu, us) for way in ("upto", "from") for eu, us in product(*lengths)]
    for way, eu, us in pairs:
        for name, end in (("eu", eu), ("us", us)):
            spool = whole(name, f"{way} {eu} {us}")
            found += spool[:end] if way == "upto" else spool[end:]
    # The same with a message that is missing between two others, which nothing explains: in a later view, in
    # that from which records were removed, and in that in which the spool ends.
    holes = (("later", (4, 1, -5, 40, 0)), ("first", (1, 1, -5, 11, 0)), ("last", (5, 1, -5, 51, 0)))
    for group, lost in holes:
        holed = whole_spool("eu", group, both)[2:]
        del holed[next(at for at, row in enumerate(holed) if row[10] == lost)]
        found += [*holed, *whole_spool("us", group, both)]

    missing = gaps(records(spark, found), bodies(spark, [])).where("kind = 'messages'")

    assert len(pairs) > 300
    unexplained = missing.where("NOT explained")
    assert values(unexplained, "group", "spool", "messages") == [
        *[("first", "eu", 1), ("last", "eu", 1), ("later", "eu", 1)],
    ]
    removed = missing.where("explanation = 'retention has removed the first records of this view'")
    assert removed.where("`group` LIKE 'upto%'").isEmpty()
    assert values(removed.where("`group` = 'from 2 0'"), "spool", "messages") == [("eu", 1)]


def message(number: int) -> MessageId:
    return MessageId("eu1", 1, number)


def sent(number: int, at_us: int, size: int = 100) -> MessageSent:
    return MessageSent(EU, at_us, ONE, message(number), Service.SAFE, Ord(number, 0, ONE), size)


def got(process: ProcessName, number: int, at_us: int) -> MessageDelivered:
    return MessageDelivered(process, at_us, ONE, message(number), Service.SAFE, Ord(number, 0, ONE))


# The machine of us1 was started 5 s later, so its clock shows less.
HISTORY: tuple[Event, ...] = (
    Recover(EU, 6_000_000, 1_000_000_000),
    ViewInstalled(EU, 6_100_000, ONE, (EU, US), (EU,), "start"),
    sent(1, 7_000_000),
    got(EU, 1, 7_000_050),
    sent(2, 7_000_100),
    got(EU, 2, 7_000_300),
    Counters(EU, 7_000_400, "us1@1", 8, 4, 1, 1, 0, 900, "us1"),
    Counters(EU, 7_500_000, "us1@1", 20, 10, 2, 2, 1, 1_000, "us1"),
    Signalled(EU, 7_900_000, ONE, (EU,)),
    ViewInstalled(EU, 8_000_000, TWO, (EU,), (EU,), "us1 is gone"),
    Recover(US, 1_000_000, 1_000_000_000),
    ViewInstalled(US, 1_100_000, ONE, (EU, US), (US,), "start"),
    got(US, 1, 2_000_070),
    got(US, 2, 2_000_040),
    Crash(US, 2_500_000),
)


def test_times_of_two_machines_are_converted_to_one_clock(spark: Any) -> None:
    from hopring.spark.pipeline.measure import (  # noqa: PLC0415
        in_groups,
        journeys,
        latency,
        latency_histogram,
        on_the_wall,
        site,
    )

    found = journeys(on_the_wall(trace(spark, HISTORY)), {})
    spooled = [record("eu", 0, place=(1, 0))]
    by_group = in_groups(
        found.selectExpr("* EXCEPT (ord_view)", f"'{VIEW_1}' AS ord_view"), records(spark, spooled)
    )

    assert values(found, "from_site", "to_site", "latency_us") == [
        *[("eu", "eu", 200), ("eu", "eu", 50), ("eu", "us", -60), ("eu", "us", 70)]
    ]
    table = latency(found, by_group, exact=True)
    assert values(table, "to_site", "group", "messages", "p50_us", "max_us", "mean_us", "negative") == [
        ("eu", "", 2, 125.0, 200.0, 125.0, 0),
        ("eu", "g", 1, 50.0, 50.0, 50.0, 0),
        ("us", "", 2, 5.0, 70.0, 5.0, 1),
        ("us", "g", 1, 70.0, 70.0, 70.0, 0),
    ]
    assert values(latency_histogram(found), "to_site", "low_us", "high_us", "messages") == [
        *[("eu", 182, 256, 1), ("eu", 46, 64, 1), ("us", 0, 1, 1), ("us", 64, 91, 1)]
    ]
    names = spark.createDataFrame([("eu1",), ("hub",), ("odd7",)], "daemon string")
    by_name = names.select("daemon", site("daemon", {"eu1": "europe"}).alias("site"))
    assert values(by_name, "daemon", "site") == [("eu1", "europe"), ("hub", "hub"), ("odd7", "odd")]


def test_runs_are_measured_apart(spark: Any) -> None:
    from hopring.spark.pipeline import measure  # noqa: PLC0415  Needs the extra.

    one = trace(spark, HISTORY)
    both = measure.on_the_wall(one.unionByName(one.selectExpr("'again' AS run", "* EXCEPT (run)")))
    found = measure.journeys(both, {})

    by_run = measure.latency(found, measure.session_journeys(both, {}), exact=True)
    assert values(by_run, "run", "to_site", "messages") == [
        *[("", "eu", 2), ("", "us", 2), ("again", "eu", 2), ("again", "us", 2)]
    ]
    for table in (measure.throughput(both, {}), measure.links(both), measure.membership(both)):
        counts = [count for _run, count in values(table.groupBy("run").count(), "run", "count")]
        assert len(counts) == 2
        assert counts[0] == counts[1]


def test_borders_of_buckets_are_exact(spark: Any) -> None:
    from hopring.spark.pipeline.measure import latency_histogram  # noqa: PLC0415  Needs the extra.

    edges = [0, 1, 2, 3, 7, 8, 11, 12, 1 << 29, (1 << 31) + 5]
    table = spark.createDataFrame([(us,) for us in edges], "latency_us bigint")
    table = table.selectExpr("*", "'' AS run", "'safe' AS service", "'a' AS from_site", "'b' AS to_site")

    found = {
        low: (high, many)
        for low, high, many in values(latency_histogram(table), "low_us", "high_us", "messages")
    }

    assert found == {
        **{0: (1, 1), 1: (2, 1), 2: (3, 1), 3: (4, 1), 6: (8, 1), 8: (12, 2), 12: (16, 1)},
        **{1 << 29: (759250125, 1), 1518500250: (1 << 31, 1)},
    }


def test_throughput_links_and_stays_are_listed_by_daemon(spark: Any) -> None:
    from hopring.spark.pipeline.measure import links, membership, on_the_wall, throughput  # noqa: PLC0415

    placed = on_the_wall(trace(spark, HISTORY))

    table = throughput(placed, {}).selectExpr("*", "unix_seconds(second) AS at")
    assert values(table, "at", "daemon", "site", "service", "sent", "delivered", "bytes") == [
        (1001, "eu1", "eu", "safe", 2, 2, 200),
        (1001, "us1", "us", "safe", 0, 2, 0),
    ]
    assert values(links(placed), "daemon", "peer", "link", "sent", "lost", "loss_ratio", "round_trip_us") == [
        ("eu1", "us1", "us1@1", 20, 2, 0.2, 1000.0)
    ]
    stays = membership(placed).selectExpr("*", "unix_micros(signalled) AS signalled_us")
    assert values(stays, "daemon", "seconds", "members", "transitional", "cause", "signalled_us") == [
        ("eu1", 1.9, ["eu1", "us1"], ["eu1"], "start", 1_001_900_000),
        ("eu1", None, ["eu1"], ["eu1"], "us1 is gone", None),
        ("us1", 1.4, ["eu1", "us1"], ["us1"], "start", None),
    ]


def test_views_of_groups_come_from_sessions_and_from_spools(spark: Any) -> None:
    from hopring.spark.pipeline.measure import group_views, on_the_wall, session_journeys  # noqa: PLC0415

    anna = ProcessName("eu1", 1, 3)
    named, its = GroupViewName(ONE, (), 1), MessageId("eu1", 1, 1, 3)
    history: list[Event] = [
        Recover(EU, 0, 50_000_000),
        ClientConnected(anna, 1_000_000, "anna", "#anna#eu1"),
        GroupInstalled(anna, 2_000_000, "g", named, (anna,), (anna,), "join"),
        ClientSent(anna, 2_100_000, ("g", "h"), its, Service.SAFE, 5),
        ClientDelivered(anna, 2_100_250, ("g", "h"), its, Service.SAFE, Ord(1, 0, ONE)),
        Gone(anna, 3_000_000),
    ]
    placed = on_the_wall(trace(spark, history))
    spooled = [shown("eu", 0, "v1", ["#eu#eu1"]), shown("eu", 5, "v2", ["#eu#eu1", "#us#us1"])]

    table = group_views(placed, bodies(spark, spooled))
    table = table.selectExpr("*", "unix_seconds(installed) AS at", "unix_seconds(ended) AS until")

    name = "0000000000000001.0000.0000000000000001-00000001"
    assert values(table, "group", "session", "view", "at", "until", "members") == [
        ("g", "eu", "v1", 0, 5, ["#eu#eu1"]),
        ("g", "eu", "v2", 5, None, ["#eu#eu1", "#us#us1"]),
        ("g", "eu1#0000000000000001/3", name, 52, 53, ["eu1#0000000000000001/3"]),
    ]
    assert values(session_journeys(placed, {}), "group", "latency_us") == [("g", 250), ("h", 250)]


def test_stages_are_composed_without_analysis_and_without_a_query(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a batch, a stream and a declarative pipeline can share them."""
    from pyspark.sql.classic.dataframe import DataFrame  # noqa: PLC0415  Needs the extra.

    from hopring.spark.pipeline import measure, reconcile  # noqa: PLC0415
    from hopring.spark.schema import with_later_columns  # noqa: PLC0415

    table = records(spark, [record("eu", 1, place=(10, 0))])
    history = trace(spark, HISTORY)
    before = jobs_of(spark)

    def guarded(name: str) -> Any:
        """An attribute that our code must not touch; PySpark itself may."""
        own = DataFrame.__dict__[name]

        def look(table: Any) -> Any:
            asking = sys._getframe(1).f_globals["__name__"]
            assert not asking.startswith("hopring"), f"{asking} asks a table for {name}"
            return own.__get__(table, DataFrame)

        return property(look)

    with monkeypatch.context() as patch:
        for name in ("columns", "schema", "dtypes", "collect", "count", "first", "head", "take", "isEmpty"):
            patch.setattr(DataFrame, name, guarded(name))
        with pytest.raises(AssertionError, match="asks a table for columns"):
            with_later_columns(history)
        found = reconcile.bodies(table)
        spooled = reconcile.messages(table)
        wall = measure.on_the_wall(history)
        moves = measure.moves(wall)
        ways = measure.matched(moves, {"eu1": "eu"})
        counts = measure.counted(measure.latencies(ways))
        made = [
            reconcile.joined(spooled),
            reconcile.gaps(table.drop("payload"), found),
            measure.added(measure.throughput(wall, {})),
            measure.latency(ways, measure.in_groups(ways, table), exact=True),
            measure.latency(ways, measure.session_journeys(wall, {}), exact=False),
            measure.latency_by_minute(counts),
            measure.latency_histogram(ways),
            measure.waiting(moves),
            measure.links(wall),
            measure.membership(wall),
            measure.group_views(wall, found),
        ]

    assert jobs_of(spark) == before
    assert [len(one.columns) > 3 for one in made] == [True] * len(made)


def test_spark_reads_archived_segments_itself_and_finds_the_same_records(users: Any, tmp_path: Path) -> None:
    from hopring.spark.pipeline.ingest import read_records  # noqa: PLC0415  Needs the extra.
    from hopring.spark.pipeline.store import named_spools  # noqa: PLC0415

    for group in ("trades/eu", "trades us", "later"):
        directory = fill(tmp_path / "spool", group, 100)
        if group != "later":
            list(archive(directory))
    spools = named_spools([str(tmp_path / "spool")])

    found = read_records(users, spools).drop("spool").orderBy("group", "offset").collect()

    plain = users.read.format("hopring").load(str(tmp_path / "spool")).orderBy("group", "offset").collect()
    assert found == plain
    assert len(found) == 300
    assert len(read_records(users, spools).inputFiles()) > 4
