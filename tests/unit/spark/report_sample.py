"""Sample tables of the pipeline, written without Spark: three sites of two daemons, a split and a merge."""

import json
from datetime import UTC, datetime, timedelta
from math import exp, log
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hopring.spark.audit import NAMES

BEGIN = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
SECONDS = 34
SPLIT_AT, HEALED_AT = 12.0, 23.0
SITES = {"eu": ("eu1", "eu2"), "us": ("us1", "us2"), "ap": ("ap1", "ap2")}
DAEMONS = tuple(daemon for site in SITES.values() for daemon in site)
EU, REST = SITES["eu"], (*SITES["us"], *SITES["ap"])
SERVICES = {"agreed": 12.0, "safe": 6.0, "fifo": 3.0}
DELAYS_MS = {frozenset({"eu", "us"}): 40.0, frozenset({"us", "ap"}): 60.0, frozenset({"eu", "ap"}): 80.0}
LIST = pa.list_(pa.string())
TIME = pa.timestamp("us", "UTC")
SCHEMAS = {
    "throughput": [
        *(("second", TIME), ("daemon", pa.string()), ("site", pa.string()), ("service", pa.string())),
        *(("sent", pa.int64()), ("delivered", pa.int64()), ("bytes", pa.int64())),
    ],
    "latency": [
        *(
            ("service", pa.string()),
            ("from_site", pa.string()),
            ("to_site", pa.string()),
            ("group", pa.string()),
        ),
        *(("messages", pa.int64()), ("p50_us", pa.float64()), ("p90_us", pa.float64())),
        *(
            ("p99_us", pa.float64()),
            ("max_us", pa.float64()),
            ("mean_us", pa.float64()),
            ("negative", pa.int64()),
        ),
    ],
    "latency_histogram": [
        *(("service", pa.string()), ("from_site", pa.string()), ("to_site", pa.string())),
        *(("low_us", pa.int64()), ("high_us", pa.int64()), ("messages", pa.int64())),
    ],
    "links": [
        *(("daemon", pa.string()), ("peer", pa.string()), ("link", pa.string()), ("sent", pa.int64())),
        *(("received", pa.int64()), ("lost", pa.int64()), ("nacks", pa.int64())),
        *(("retransmissions", pa.int64()), ("loss_ratio", pa.float64()), ("round_trip_us", pa.float64())),
    ],
    "membership": [
        *(("daemon", pa.string()), ("view", pa.string()), ("installed", TIME), ("ended", TIME)),
        *(("seconds", pa.float64()), ("members", LIST), ("transitional", LIST), ("cause", pa.string())),
        ("signalled", TIME),
    ],
    "group_views": [
        *(("group", pa.string()), ("session", pa.string()), ("view", pa.string()), ("installed", TIME)),
        *(("ended", TIME), ("members", LIST), ("cause", pa.string())),
    ],
    "summary": [("name", pa.string()), ("value", pa.float64())],
}
Rows = list[dict[str, Any]]


def write_table(out: Path, name: str, rows: Rows, tier: str = "gold", schema: Any = None) -> None:
    """A table as Spark leaves it: a directory with parts, and a file that marks it as complete."""
    place = out / tier / name
    place.mkdir(parents=True, exist_ok=True)
    wanted = pa.schema(schema or SCHEMAS[name])
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        table = pa.Table.from_pylist(part, schema=wanted)
        pq.write_table(table, place / f"part-{number:05d}.snappy.parquet")
    (place / "_SUCCESS").touch()


def write_sample(out: Path, broken: bool = False, crash: bool = False) -> Path:
    """Writes all tables; `broken` adds a violated property, `crash` a daemon that dies and comes back."""
    write_table(out, "throughput", throughput())
    latency, histogram = latencies()
    write_table(out, "latency", latency)
    write_table(out, "latency_histogram", histogram)
    write_table(out, "links", links())
    write_table(out, "membership", membership(crash))
    write_table(out, "group_views", group_views())
    figures = {"messages_sent": 3_774.0, "delivered_bytes": 4.2e6, "run_seconds": 34.0, "loss_ratio": 0.0123}
    write_table(out, "summary", [{"name": name, "value": value} for name, value in figures.items()])
    gaps = [
        {"group": "trades", "spool": "us", "from_offset": 1_200, "reason": "the spooler was too slow", "n": 17}
    ]
    columns = [("group", pa.string()), ("spool", pa.string()), ("from_offset", pa.int64())]
    write_table(out, "gaps", gaps, "silver", [*columns, ("reason", pa.string()), ("n", pa.int64())])
    (out / "audit.json").write_text(json.dumps(audit(broken)))
    return out


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def apart(second: float) -> bool:
    return SPLIT_AT <= second < HEALED_AT


def throughput() -> Rows:
    rows: Rows = []
    for second in range(SECONDS):
        for site, daemons in SITES.items():
            for daemon in daemons:
                for number, (service, pace) in enumerate(SERVICES.items()):
                    swing = 1 + 0.03 * (
                        (second * second * 3 + number * 5 + ord(daemon[2]) + ord(site[0])) % 11 - 5
                    )
                    waits = SPLIT_AT < second < SPLIT_AT + 2 or second == int(HEALED_AT)
                    sent = round(pace * swing * (1.4 if site == "us" else 1.0))
                    reached = 0 if waits else (2 if site == "eu" else 4) if apart(second) else 6
                    rows.append(
                        {
                            "second": at(second),
                            **{"daemon": daemon, "site": site, "service": service, "sent": sent},
                            **{"delivered": sent * reached, "bytes": sent * reached * 200},
                        }
                    )
    return rows


def latencies() -> tuple[Rows, Rows]:
    latency: Rows = []
    histogram: Rows = []
    for service in SERVICES:
        for here in SITES:
            for there in SITES:
                middle_us = 1_000 * (DELAYS_MS.get(frozenset({here, there}), 0.9) + 3)
                middle_us *= {"safe": 2.1, "agreed": 1.25, "fifo": 1.0}[service]
                buckets = hill(middle_us)
                messages = sum(count for _, _, count in buckets)
                names = {"service": service, "from_site": here, "to_site": there}
                for low, high, count in buckets:
                    histogram.append({**names, "low_us": low, "high_us": high, "messages": count})
                times = {"p50_us": middle_us, "p90_us": middle_us * 1.5, "p99_us": middle_us * 2.6}
                times |= {"max_us": middle_us * 4.1, "mean_us": middle_us * 1.1}
                for group in ("", "orders", "trades"):
                    latency.append({**names, "group": group, "messages": messages, **times, "negative": 0})
    return latency, histogram


def hill(middle_us: float) -> list[tuple[int, int, int]]:
    """Buckets of a quarter of an octave, with a long tail to the right."""
    found = []
    for step in range(-6, 10):
        low, high = middle_us * 2 ** (step / 4), middle_us * 2 ** ((step + 1) / 4)
        distance = log(low / middle_us) / (0.22 if step < 0 else 0.42)
        count = round(900 * exp(-(distance**2) / 2))
        if count:
            found.append((round(low), round(high), count))
    return found


def links() -> Rows:
    rows: Rows = []
    for here in DAEMONS:
        for there in DAEMONS:
            if here[:2] == there[:2] or not (here.endswith("1") and there.endswith("1")):
                continue
            lossy = {here, there} == {"us1", "ap1"}
            sent = 8_400 + 37 * (ord(here[0]) + 3 * ord(there[0]))
            lost = sent // 81 if lossy else (3 if here == "eu1" else 0)
            rows.append(
                {
                    **{"daemon": here, "peer": there, "link": "hop", "sent": sent, "received": sent - 90},
                    **{"lost": lost, "nacks": lost // 2 + 1, "retransmissions": lost + lost // 9},
                    "loss_ratio": lost / sent,
                    "round_trip_us": 2_000 * DELAYS_MS[frozenset({here[:2], there[:2]})] + 700,
                }
            )
    return rows


def view(counter: int, representative: int) -> str:
    return f"{counter:012x}.{representative:04x}.{counter * 7919 + representative:016x}"


def stay(
    daemon: str,
    name: str,
    begin: float,
    end: float | None,
    members: tuple[str, ...],
    together: tuple[str, ...],
    cause: str,
    signalled: float | None = None,
) -> dict[str, Any]:
    skew = DAEMONS.index(daemon) * 0.004 if daemon in DAEMONS else 0.0
    return {
        **{"daemon": daemon, "view": name, "installed": at(begin + skew)},
        "ended": None if end is None else at(end + skew),
        "seconds": None if end is None else end - begin,
        **{"members": list(members), "transitional": list(together), "cause": cause},
        "signalled": None if signalled is None else at(signalled + skew),
    }


def membership(crash: bool = False) -> Rows:
    rows: Rows = []
    first, second, third = view(3, 1), (view(4, 1), view(4, 3)), view(5, 1)
    split, merged = SPLIT_AT + 2.1, HEALED_AT + 0.6
    for daemon in DAEMONS:
        side, name = (EU, second[0]) if daemon in EU else (REST, second[1])
        start = "first view", (daemon,)
        rows.append(stay(daemon, first, 0.4, split, DAEMONS, start[1], start[0], split - 0.12))
        cause = "silence of " + ", ".join(one for one in DAEMONS if one not in side)
        if crash and daemon == "ap2":
            rows.append(stay(daemon, name, split, 18.0, side, side, cause))
            rows.append(stay(daemon, third, merged, None, DAEMONS, (daemon,), "first view"))
            continue
        rows.append(stay(daemon, name, split, merged, side, side, cause, merged - 0.2))
        rows.append(stay(daemon, third, merged, None, DAEMONS, side, "a merge was found"))
    return rows


def group_views() -> Rows:
    rows: Rows = []
    for group in ("trades", "orders"):
        for number in range(1, len(DAEMONS) + 1):
            begin = 0.6 + 0.4 * number
            end = SPLIT_AT + 2.1 if number == len(DAEMONS) else begin + 0.4
            rows += group_view(group, f"{view(3, 1)}-{number:08x}", DAEMONS[:number], begin, end, "join")
        merged = HEALED_AT + 0.7
        rows += group_view(group, f"{view(4, 1)}-00000001", EU, SPLIT_AT + 2.1, merged, "network")
        rows += group_view(group, f"{view(4, 3)}-00000001", REST, SPLIT_AT + 2.1, merged, "network")
        rows += group_view(group, f"{view(5, 1)}-00000001", DAEMONS, merged, None, "network")
    return rows


def group_view(
    group: str, name: str, daemons: tuple[str, ...], begin: float, end: float | None, cause: str
) -> Rows:
    members = [f"{daemon}#{number + 7:016x}/1" for number, daemon in enumerate(daemons)]
    ended = None if end is None else at(end)
    facts = {"group": group, "view": name, "installed": at(begin), "ended": ended, "cause": cause}
    return [{**facts, "session": session, "members": members} for session in members]


def audit(broken: bool) -> dict[str, Any]:
    witness = "us2 delivered ams1:2 at 14.2 s in view 3, and us1, which moved with it to view 4, did not"
    findings = [{"run": "", "property": "2.7 virtual synchrony", "violations": 12, "witness": witness}]
    return {
        "holds": not broken,
        "runs": [""],
        "broken": findings if broken else [],
        "judged": {"": list(NAMES)},
    }
