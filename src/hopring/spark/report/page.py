"""Renders the page: a single file without dependencies, with the same bytes for the same tables."""

import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from hopring import __version__
from hopring.check.picture.svg import escape
from hopring.spark.report import html, latency, membership, stream, summary, texts, throughput
from hopring.spark.report.gold import GoldTables, read_gold
from hopring.spark.report.html import paragraph, tag
from hopring.spark.report.throughput import seconds_window_us as seconds_of_table
from hopring.spark.report.throughput import sites as sites_of_table

REPORT_FILE: Final = "report.html"
HERE: Final = Path(__file__).parent
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {script}; base-uri 'none'; form-action 'none'"
)
"""The page loads nothing, and its only script is the one with this hash: the browser enforces both."""


class PageSection(msgspec.Struct, frozen=True):
    """A section of the page, with its explanation and its content."""

    key: str
    title: str
    text: str  # An explanation of one or two sentences.
    inside: str


def write_report(out: Path) -> Path:
    """Writes the report into a pipeline's directory; it appears only when it is complete."""
    file = out / REPORT_FILE
    beside = out / f".{REPORT_FILE}.{os.getpid()}"
    beside.write_text(render(read_gold(out)), encoding="utf-8")
    beside.replace(file)
    return file


def render(gold: GoldTables) -> str:
    """The HTML of the page for these tables."""
    window = _window(gold)
    sites = _sites(gold)
    found = _sections(gold, window, sites)
    verdict, kind = summary.headline(gold.audit, closed_only=stream.is_running(gold))
    nav = [tag("a", {"href": f"#{one.key}"}, escape(one.title)) for one in found]
    theme = tag("button", {"id": "theme", "type": "button", "hidden": "hidden"}, "Light or dark")
    head = [
        tag("p", {"class": "brand"}, tag("span", None, "hopring report"), theme),
        tag("h1", {"class": kind}, escape(_sign(kind) + verdict)),
        paragraph(_period(window), "period"),
        stream.progress(gold),
        summary.alarm(gold.audit),
        summary.tile_list(summary.tiles(gold, window, sites)),
        tag("nav", {"aria-label": "Sections"}, *nav),
    ]
    foot = paragraph(f"Made by hopring {__version__} from the tables beside this file. Times are UTC.")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    body = [
        tag("header", None, *head),
        tag("main", None, *[_section(one) for one in found]),
        tag("footer", None, foot),
        tag("div", {"id": "tip", "role": "tooltip", "hidden": "hidden"}),
        tag("script", None, script),
    ]
    policy = POLICY.format(script=script_hash(script))
    return _document(f"hopring report: {verdict}", body, policy, reload=stream.is_running(gold))


def script_hash(script: str) -> str:
    """The source in a content security policy that allows exactly this inline script."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def _document(title: str, body: list[str], policy: str, *, reload: bool) -> str:
    style = html.sheet() + (HERE / "page.css").read_text(encoding="utf-8")
    again = f'<meta http-equiv="refresh" content="{stream.RELOAD_SECONDS}">\n' if reload else ""
    head = (
        f'<meta charset="utf-8">\n{again}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n"
    )
    inside = "\n".join(body)
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}</head>\n<body>\n{inside}\n</body>\n</html>\n'


def _section(one: PageSection) -> str:
    parts = [tag("h2", {"id": f"{one.key}-title"}, escape(one.title))]
    parts += [paragraph(one.text, "words")] if one.text else []
    frame = {"id": one.key, "aria-labelledby": f"{one.key}-title"}
    return tag("section", {**frame}, *parts, one.inside) + "\n"


def _sections(gold: GoldTables, window: tuple[int, int] | None, sites: dict[str, str]) -> list[PageSection]:
    site_class = html.site_classes(sites.values())
    by_daemon = {daemon: site_class[site] for daemon, site in sites.items()}
    found = [
        membership.membership_section(gold, window, by_daemon),
        throughput.throughput_section(gold, window, membership.moments(gold, window), site_class),
        latency.latency_section(gold),
        summary.links_section(gold),
        membership.groups_section(gold, window, by_daemon),
        summary.gaps_section(gold),
        stream.late_section(gold),
        summary.verdicts_section(gold.audit, closed_only=stream.is_running(gold)),
        summary.figures_section(gold),
    ]
    return [PageSection(*one) for one in found if one is not None]


def _window(gold: GoldTables) -> tuple[int, int] | None:
    """The time that all tables with times cover together."""
    ends = [seconds_of_table(gold.throughput), membership.window_us(gold.membership or [])]
    known = [one for one in ends if one is not None]
    return (min(one[0] for one in known), max(one[1] for one in known)) if known else None


def _sites(gold: GoldTables) -> dict[str, str]:
    """The site of each daemon: from the tables, or its name without the number."""
    known = sites_of_table(gold.throughput)
    named = {stay.daemon for stay in gold.membership or []}
    return {daemon: daemon.rstrip("0123456789") or daemon for daemon in sorted(named)} | known


def _period(window: tuple[int, int] | None) -> str:
    if window is None:
        return "No times were recorded."
    begin, end = window
    until = f"{texts.day(end)}, " if texts.day(begin) != texts.day(end) else ""
    return f"{texts.day(begin)}, {texts.moment(begin)} to {until}{texts.moment(end)} UTC"


def _sign(kind: str) -> str:
    return {"good": "✓ ", "bad": "✗ "}.get(kind, "")
