"""The page as a whole: its content, what it must not contain, and that it is reproducible."""
# ruff: noqa: E402  What follows pyarrow needs it.

import json
import re
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

import pyarrow.parquet as pq
from tests.unit.spark.report_sample import BEGIN, SCHEMAS, at, stay, write_sample, write_table

from hopring.check.properties import statement_of
from hopring.spark.audit import NAMES
from hopring.spark.errors import ForeignInput
from hopring.spark.report import write_report

REPORT_BYTES_MAX = 2_000_000
VOID = {"meta", "link", "br", "hr", "img", "input"}
EVIL = '</script><script>alert("x")</script><img src=x onerror=alert(1)>\u202e\x00'


class Page(HTMLParser):
    """Parses a page; an element that is not closed where it should be is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.page_text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.page_text += data

    def within(self, section: str) -> "Page":
        """One section as a separate page."""
        begin = self.text.index(f'<section id="{section}"')
        return Page(self.text[begin : self.text.index("</section>", begin) + len("</section>")])

    def count(self, tag: str, **attributes: str) -> int:
        wanted = [(name.rstrip("_"), value) for name, value in attributes.items()]
        return sum(
            one == tag and all(value in (found.get(name) or "").split() for name, value in wanted)
            for one, found in self.tags
        )


def page(out: Path) -> Page:
    return Page(write_report(out).read_text())


@pytest.mark.slow
def test_a_report_has_all_its_parts(tmp_path: Path) -> None:
    found = page(write_sample(tmp_path))

    assert "All 30 properties hold" in found.page_text
    for part in ("Membership", "Throughput", "Latency", "Links", "Groups", "Gaps", "Audit", "Figures"):
        assert part in found.page_text
    assert found.count("section") == 8
    assert found.within("membership").count("path", class_="strand") == 3 * 18
    assert found.count("path", class_="line") == 2 * 4 * 3
    assert found.count("path", class_="hill") == 27
    assert found.count("circle", class_="half") == found.count("circle", class_="most") == 27
    assert found.within("membership").count("circle", class_="signal") == 3 * 12
    assert "the spooler was too slow" in found.page_text


def write_late(out: Path) -> None:
    """Makes the tables those of a stream that runs, with rows that came late."""
    late = {"run": "", "source": "records", "name": "us", "group": "g", "minute": BEGIN, "rows": 7}
    rows = [
        {**late, "late_seconds": 200.0, "reason": "this source was behind"},
        {
            **late,
            "minute": BEGIN + timedelta(minutes=1),
            "late_seconds": 30.0,
            "reason": "this source was behind",
        },
    ]
    (out / "gold" / "late").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), out / "gold" / "late" / "pass-0.parquet")
    state = {"running": True, "watermark_us": 1_779_000_000_000_000, "closed": 3, "views": 4}
    (out / "stream.json").write_text(json.dumps(state))


@pytest.mark.slow
def test_a_page_of_a_stream_lists_late_rows_and_loads_itself_again_while_it_runs(tmp_path: Path) -> None:
    out = write_sample(tmp_path)
    plain = page(out)
    write_late(out)
    running = page(out)
    (out / "stream.json").write_text('{"running": false}')
    ended = page(out)

    assert "All 30 properties hold in closed views" in running.page_text
    assert "Of 4 views of daemons, 3 are closed and audited." in running.page_text
    late = running.within("late")
    assert late.page_text.count("this source was behind") == 1
    assert ("14" in late.page_text, "3 min 20 s" in late.page_text) == (True, True)
    reloads = [one.text.count('<meta http-equiv="refresh"') for one in (plain, running, ended)]
    assert reloads == [0, 1, 0]
    assert "closed views" not in ended.page_text
    assert ["this source was behind" in one.page_text for one in (plain, ended)] == [False, True]


@pytest.mark.slow
def test_a_broken_property_is_at_the_top_with_its_witness(tmp_path: Path) -> None:
    found = page(write_sample(tmp_path, broken=True, crash=True))

    assert "1 of 30 properties is broken" in found.page_text
    assert found.page_text.count("us2 delivered ams1:2 at 14.2 s in view 3") == 2
    assert found.page_text.count("✓ holds") == 29
    assert found.count("path", class_="crash") == 3
    assert found.count("path", class_="start") == 3


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True])
def test_the_same_tables_give_the_same_bytes(tmp_path: Path, crash: bool) -> None:
    one, other = (write_report(write_sample(tmp_path / name, crash=crash)) for name in ("one", "other"))

    assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_the_order_of_rows_does_not_change_the_page(tmp_path: Path) -> None:
    before = write_report(write_sample(tmp_path)).read_bytes()
    for name in SCHEMAS:
        directory = tmp_path / "gold" / name
        files = sorted(directory.glob("*.parquet"))
        tables = [pa.parquet.read_table(file) for file in files]
        turned = pa.concat_tables(tables)
        turned = turned.take(list(range(turned.num_rows))[::-1])
        pa.parquet.write_table(turned, files[0])
        files[1].unlink()

    assert write_report(tmp_path).read_bytes() == before


@pytest.mark.slow
def test_the_page_makes_no_network_requests(tmp_path: Path) -> None:
    text = write_report(write_sample(tmp_path)).read_text()

    for tag, attributes in Page(text).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|https?:|//[a-z]+\.", text)
    assert "default-src 'none'" in text


def test_a_directory_without_tables_gives_a_page_that_says_so(tmp_path: Path) -> None:
    found = page(tmp_path)

    assert "Not audited" in found.page_text
    for page_text in (
        *("No views of daemons were recorded.", "No messages were recorded.", "No latencies were recorded."),
        *("No links were recorded.", "No audit was made of this run."),
    ):
        assert page_text in found.page_text
    assert found.count("svg") == 0


def test_empty_tables_are_reported(tmp_path: Path) -> None:
    for name in SCHEMAS:
        write_table(tmp_path, name, [])
    found = page(tmp_path)

    assert "No links were recorded." in found.page_text
    assert "No views of groups were recorded." in found.page_text


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMAS)
def test_each_table_may_be_missing(tmp_path: Path, name: str) -> None:
    for file in (write_sample(tmp_path) / "gold" / name).iterdir():
        file.unlink()

    assert page(tmp_path).count("section") == (7 if name in ("group_views", "summary") else 8)


@pytest.mark.slow
def test_names_from_the_input_are_escaped(tmp_path: Path) -> None:
    write_table(tmp_path, "membership", [stay(EVIL, EVIL, 0, None, (EVIL,), (EVIL,), EVIL)])
    row = {
        "second": BEGIN,
        "daemon": EVIL,
        "site": EVIL,
        "service": EVIL,
        "sent": 1,
        "delivered": 1,
        "bytes": 1,
    }
    write_table(tmp_path, "throughput", [row])
    link = {"daemon": EVIL, "peer": EVIL, "link": EVIL, "sent": 1, "received": 1, "lost": 1, "nacks": 1}
    write_table(tmp_path, "links", [{**link, "retransmissions": 1, "loss_ratio": None, "round_trip_us": None}])
    names = {"service": EVIL, "from_site": EVIL, "to_site": EVIL}
    write_table(tmp_path, "latency_histogram", [{**names, "low_us": 1, "high_us": 2, "messages": 1}])
    view = {"group": EVIL, "session": EVIL, "view": EVIL, "installed": BEGIN, "ended": None}
    write_table(tmp_path, "group_views", [{**view, "members": [EVIL], "cause": EVIL}])
    write_table(tmp_path, "summary", [{"name": EVIL, "value": 1.0}])
    write_table(tmp_path, "gaps", [{EVIL: EVIL}], "silver", [(EVIL, pa.string())])
    audit = {"run": EVIL, "property": EVIL, "violations": 1, "witness": EVIL}
    judged = {"holds": False, "runs": [EVIL], "broken": [audit], "judged": {EVIL: [EVIL]}}
    (tmp_path / "audit.json").write_text(json.dumps(judged))
    found = page(tmp_path)
    honest = page(write_sample(tmp_path / "honest"))

    assert found.count("script") == honest.count("script") == 1
    assert found.count("img") == 0
    assert "<script>alert" in found.page_text
    assert "\u202e" not in found.page_text
    assert "\x00" not in found.page_text


def test_the_policy_allows_the_scripts_of_the_page_by_their_hashes_and_no_others(tmp_path: Path) -> None:
    text = write_report(write_sample(tmp_path)).read_text()

    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    directives = dict(one.strip().split(" ", 1) for one in policy.split(";"))
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    hashes = [f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in scripts]
    assert directives["script-src"] == " ".join(hashes)
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert not re.search(r"\son\w+=|javascript:", Page(text).text.split("<script>")[0]), "no handlers either"


@pytest.mark.long
@pytest.mark.slow
def test_a_long_and_wide_run_is_below_two_megabytes(tmp_path: Path) -> None:
    out = write_sample(tmp_path)
    names = [f"daemon-of-a-long-name-{number:03d}" for number in range(120)]
    members = tuple(names)
    rows = [
        stay(
            name,
            f"view-{turn:05d}-{'x' * 60}",
            turn * 3.0,
            turn * 3.0 + 3,
            members,
            members,
            "why " * 80,
            turn * 3.0 + 2,
        )
        for turn in range(100)
        for name in names
    ]
    write_table(out, "membership", rows)
    sites = [f"site-{number}" for number in range(12)]
    buckets = [
        {
            "service": service,
            "from_site": here,
            "to_site": there,
            "low_us": low,
            "high_us": low + 50,
            "messages": 9,
        }
        for service in ("unreliable", "reliable", "fifo", "causal", "agreed", "safe")
        for here in sites
        for there in sites
        for low in range(100, 6_000, 50)
    ]
    write_table(out, "latency_histogram", buckets)
    traffic = [
        {"second": at(second), "daemon": names[n], "site": sites[n], "service": "agreed", "sent": second}
        | {"delivered": second, "bytes": second}
        for second in range(0, 4_000)
        for n in range(12)
    ]
    write_table(out, "throughput", traffic)
    file = write_report(out)
    found = Page(file.read_text())

    assert file.stat().st_size < REPORT_BYTES_MAX
    assert "72 more daemons left out of the picture." in found.page_text
    assert "40 more rows are left out here." in found.page_text
    assert "132 more pairs of sites, with fewer messages, left out here." in found.page_text
    assert "Each point is the mean of 30 s" in found.page_text


def test_a_table_of_other_columns_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    write_table(tmp_path, "links", [{"daemon": "eu1"}], schema=[("daemon", pa.string())])

    with pytest.raises(ForeignInput, match=r"links has no column peer, link, sent.*; make the tables again"):
        write_report(tmp_path)


def test_invalid_tables_and_audits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text("{")
    with pytest.raises(ForeignInput, match="is no audit"):
        write_report(tmp_path)
    (tmp_path / "audit.json").unlink()
    (tmp_path / "gold" / "links").mkdir(parents=True)
    (tmp_path / "gold" / "links" / "part.parquet").write_bytes(b"nonsense")
    with pytest.raises(ForeignInput, match="is no table"):
        write_report(tmp_path)
    assert not list(tmp_path.glob("*.html*"))


def test_every_property_of_the_audit_has_its_sentence_and_it_is_that_of_the_docs() -> None:
    assert [name for name in NAMES if not statement_of(name)] == []
    assert statement_of("EVS-C 2.7 virtual synchrony") == "Who moves together has seen the same."
    assert statement_of("something else") == ""


def test_values_that_are_no_numbers_and_rows_of_no_time_do_no_harm(tmp_path: Path) -> None:
    odd = float("inf"), float("nan"), None
    link = {"daemon": "eu1", "peer": "us1", "link": "hop", "sent": 1, "received": 1, "lost": 1, "nacks": None}
    write_table(
        tmp_path,
        "links",
        [{**link, "retransmissions": 1, "loss_ratio": value, "round_trip_us": value} for value in odd],
    )
    names = {"service": "safe", "from_site": "eu", "to_site": "us", "group": "", "messages": 3, "negative": 0}
    times = ("p50_us", "p90_us", "p99_us", "max_us", "mean_us")
    write_table(tmp_path, "latency", [{**names, **dict.fromkeys(times, value)} for value in odd])
    write_table(tmp_path, "summary", [{"name": f"figure_{at}", "value": value} for at, value in enumerate(odd)])
    timeless = stay("eu1", "v", 0, None, ("eu1",), ("eu1",), "") | {"installed": None}
    write_table(tmp_path, "membership", [timeless])
    found = page(tmp_path)

    assert "inf" not in found.page_text
    assert "nan" not in found.page_text
    assert "No views of daemons were recorded." in found.page_text
