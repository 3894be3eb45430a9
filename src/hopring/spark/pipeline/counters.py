"""Counters of a pipeline for Prometheus: by HTTP while it runs, and as a file in its directory.

The names and the format are those of `hopd --metrics`. The file suits node_exporter's textfile collector, for
runs that end before anybody asks.
"""

import ipaddress
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

from hopring.daemon.admin.exposition import CONTENT_TYPE, Sample, family, single
from hopring.daemon.admin.http_server import parse_place
from hopring.spark.audit.witness import AuditReport
from hopring.spark.errors import SparkError
from hopring.spark.lag import GroupLag, LagListener
from hopring.spark.pipeline.store import SpoolRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH: Final = "/metrics"
REQUEST_SECONDS: Final = 3.0


class PipelineCounters:
    """Figures of one pipeline since its start; several threads may change and read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: Counter[str] = Counter()  # By spool, like the next.
        self._batches: Counter[str] = Counter()
        self._lag: dict[tuple[str, str], GroupLag] = {}  # By spool and group.
        self._violations: dict[str, int] = {}  # By property, in the last audit.
        self._audits = 0
        self._gaps: int | None = None
        self._alerts = 0
        self._ran_at_seconds = 0.0

    def batch(self, spool: str, records: int) -> None:
        """Counts a batch of a stream."""
        with self._lock:
            self._batches[spool] += 1
            self._records[spool] += records

    def lag(self, spool: str, found: Mapping[str, GroupLag]) -> None:
        """Sets the lag of a stream, by group."""
        with self._lock:
            self._lag = {key: its for key, its in self._lag.items() if key[0] != spool}
            self._lag |= {(spool, group): its for group, its in found.items()}

    def audit(self, report: AuditReport | None) -> None:
        """Sets the violations of the last audit."""
        if report is None:
            return
        judged = {name for names in report.judged.values() for name in names}
        with self._lock:
            self._audits += 1
            self._violations = dict.fromkeys(sorted(judged), 0)
            for finding in report.findings:
                self._violations[finding.property] += finding.violations

    def gaps(self, unexplained: int) -> None:
        """Sets the number of unexplained gaps."""
        with self._lock:
            self._gaps = unexplained

    def alerts(self, sent: int) -> None:
        """Counts alerts that were sent."""
        with self._lock:
            self._alerts += sent

    def ran(self) -> None:
        """Notes that all tables are up to date now."""
        with self._lock:
            self._ran_at_seconds = time.time()

    def behind(self) -> GroupLag:
        """The lag of all streams: the sum of the records, and the longest time."""
        with self._lock:
            lags = list(self._lag.values())
        return GroupLag(
            sum([its.records for its in lags]), max([its.seconds or 0.0 for its in lags], default=0.0)
        )

    def text(self) -> str:
        """All figures in Prometheus' text format."""
        with self._lock:
            return "".join(self._families())

    def _families(self) -> Iterator[str]:
        for unit, counts in (("records", self._records), ("batches", self._batches)):
            samples: list[Sample] = [({"spool": spool}, count) for spool, count in sorted(counts.items())]
            yield family(f"pipeline_{unit}_total", "counter", f"Ingested {unit} of a stream.", samples)
        lags = sorted(self._lag.items())
        behind: list[Sample] = [({"spool": key[0], "group": key[1]}, its.records) for key, its in lags]
        yield family("pipeline_lag_records", "gauge", "Records behind the end of the spool.", behind)
        late: list[Sample] = [
            ({"spool": key[0], "group": key[1]}, its.seconds) for key, its in lags if its.seconds is not None
        ]
        yield family("pipeline_lag_seconds", "gauge", "Time behind the last record of the spool.", late)
        yield single("pipeline_audits_total", "counter", "Audits that were made.", self._audits)
        broken: list[Sample] = [({"property": name}, count) for name, count in self._violations.items()]
        yield family("pipeline_violations", "gauge", "Violations in the last audit, by property.", broken)
        unexplained: list[Sample] = [] if self._gaps is None else [({}, self._gaps)]
        yield family("pipeline_gaps_unexplained", "gauge", "Gaps that nothing explains.", unexplained)
        yield single("pipeline_alerts_total", "counter", "Alerts that were sent.", self._alerts)
        ran: list[Sample] = [({}, self._ran_at_seconds)] if self._ran_at_seconds else []
        yield family("pipeline_last_success_timestamp_seconds", "gauge", "When all tables were made.", ran)


class StreamWatch(LagListener):
    """Keeps the counters of the streams that read these spools, by the progress that Spark reports."""

    def __init__(self, spools: Iterable[SpoolRoot], counters: PipelineCounters) -> None:
        self._spools = {query_name(spool.name): spool.name for spool in spools}
        super().__init__(
            {query_name(spool.name): spool.path for spool in spools},
            lambda name, found: counters.lag(self._spools[name], found),
        )
        self._counters = counters

    def onQueryProgress(self, event: Any) -> None:
        """Counts a batch, and sets the lag."""
        super().onQueryProgress(event)
        if event.progress.name in self._spools and event.progress.numInputRows:
            self._counters.batch(self._spools[event.progress.name], event.progress.numInputRows)


@contextmanager
def watched(spark: "SparkSession", spools: Iterable[SpoolRoot], counters: PipelineCounters) -> Iterator[None]:
    """Keeps the counters of the streams of these spools inside the block."""
    watch = StreamWatch(spools, counters)
    spark.streams.addListener(watch)
    try:
        yield
    finally:
        spark.streams.removeListener(watch)


def query_name(spool: str) -> str:
    """The name of the query that ingests a spool."""
    return f"ingest {spool}"


class CountersPage:
    """Serves the counters by HTTP inside a `with` block, on loopback only."""

    def __init__(self, place: str, counters: PipelineCounters) -> None:
        """Starts to listen at `[ADDRESS:]PORT`; SparkError if that is wrong or taken."""
        try:
            address, port = parse_place(place)
        except ValueError as error:
            raise SparkError(f"--metrics: {error}", "give a port of loopback") from None
        if not _is_loopback(address):
            remedy = "give a port of loopback, and put a proxy in front of it"
            raise SparkError(f"--metrics: {address} is not loopback, and nobody is asked who they are", remedy)
        try:
            self._server = _Server((address, port), _handler(counters))
        except OSError as error:
            what = f"metrics: TCP port {port} of {address}: {error.strerror or error}"
            raise SparkError(what, "choose another place for --metrics") from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class _Server(HTTPServer):
    """Serves one request at a time, so that requests need no other limit than their time."""

    allow_reuse_address = True


def _handler(counters: PipelineCounters) -> type[BaseHTTPRequestHandler]:
    class _Page(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            is_known = self.path.partition("?")[0] == PATH
            body = (counters.text() if is_known else f"there is {PATH}\n").encode()
            self.send_response(HTTPStatus.OK if is_known else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", CONTENT_TYPE if is_known else "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keeps requests out of the terminal."""

    return _Page
