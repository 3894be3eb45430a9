"""The part of the page about a stream: how far it has come, and the section Late, with rows and reasons."""

from typing import Final

from hopring.spark.report import texts
from hopring.spark.report.gold import GoldTables, LateRow
from hopring.spark.report.html import Cell, TableColumn, paragraph, table

RELOAD_SECONDS: Final = 60
"""The page of a stream that runs loads itself again, as often as it is renewed at most."""

COLUMNS: Final = (
    TableColumn("source", number=False),
    TableColumn("group", number=False),
    TableColumn("rows"),
    TableColumn("minutes"),
    TableColumn("late by up to"),
    TableColumn("why", number=False),
)


def is_running(gold: GoldTables) -> bool:
    """Whether the tables are those of a stream that goes on."""
    return gold.stream is not None and gold.stream.running


def progress(gold: GoldTables) -> str:
    """A paragraph about a stream that runs; empty otherwise."""
    if gold.stream is None or not gold.stream.running:
        return ""
    text = "The stream is running, and this page is renewed."
    if gold.stream.views:
        some = texts.plural(gold.stream.views, "view")
        text += f" Of {some} of daemons, {texts.count(gold.stream.closed)} are closed and audited."
    if gold.stream.watermark_us is not None:
        at_us = gold.stream.watermark_us
        text += f" Records up to {texts.day(at_us)}, {texts.moment(at_us)} UTC are expected to be complete."
    return paragraph(text, "note")


def late_section(gold: GoldTables) -> tuple[str, str, str, str] | None:
    """The section Late; None if the tables are not those of a stream."""
    if gold.stream is None or gold.late is None:
        return None
    if not gold.late:
        return "late", "Late", "", paragraph("Nothing came late.", "empty")
    caption = (
        "Rows that came after the stream had closed their minute. All tables have them; figures that were read"
        " before did not."
    )
    return "late", "Late", caption, late_table(gold.late, gold.left_out.get("late", 0))


def late_table(late: list[LateRow], more: int = 0) -> str:
    """A row for each source and reason, that with most rows first."""
    by_source: dict[tuple[str, str, str, str], list[LateRow]] = {}
    for one in late:
        by_source.setdefault((_source(one), one.group, one.reason, one.run), []).append(one)
    order = sorted(by_source.items(), key=lambda item: (-sum(one.rows for one in item[1]), item[0]))
    rows: list[tuple[Cell, ...]] = [
        (
            texts.short(source),
            texts.short(group) or texts.NOTHING,
            texts.count(sum(one.rows for one in its)),
            texts.count(len({one.minute_us for one in its})),
            texts.span(max(one.late_seconds for one in its) * 1e6),
            texts.short(reason, 120),
        )
        for (source, group, reason, _), its in order
    ]
    return table("Late rows", COLUMNS, rows, more)


def _source(one: LateRow) -> str:
    kind = "spool" if one.source == "records" else "trace of"
    return f"{kind} {one.name}" + (f", run {one.run}" if one.run else "")
