"""The section Audit: every property, whether it holds, and the witnesses of broken ones."""

from typing import Final

from hopring.check.picture.svg import escape
from hopring.check.properties import statement_of
from hopring.spark.report import texts
from hopring.spark.report.gold import AuditVerdicts, FindingRow
from hopring.spark.report.html import Cell, Raw, TableColumn, paragraph, table, tag

BROKEN_MAX: Final = 12
COLUMNS: Final = (
    TableColumn("property", number=False),
    TableColumn("in a sentence", number=False),
    TableColumn("verdict", number=False),
)


def properties(audit: AuditVerdicts) -> list[str]:
    """The properties that were checked in any run, in the order of the audit."""
    found: dict[str, None] = {}
    for run in sorted(audit.judged):
        found |= dict.fromkeys(audit.judged[run])
    return list(found | dict.fromkeys([one.property for one in audit.broken]))


def headline(audit: AuditVerdicts | None) -> tuple[str, str]:
    """The verdict in a sentence, and its style class."""
    if audit is None:
        return "Not audited", "plain"
    judged = len(properties(audit))
    if not judged:
        return "The audit judged nothing", "plain"
    broken = len({one.property for one in audit.broken})
    if audit.holds and not broken:
        return f"All {judged} properties hold", "good"
    return f"{broken} of {judged} properties {'is' if broken == 1 else 'are'} broken", "bad"


def alarm(audit: AuditVerdicts | None) -> str:
    """The broken properties for the top of the page; empty if all hold."""
    if audit is None or not audit.broken:
        return ""
    items = [tag("li", None, tag("b", None, escape(_named(one))), " ", _witness(one)) for one in audit.broken]
    more = len(items) - BROKEN_MAX
    rest = paragraph(f"{texts.plural(more, 'more broken verdict')} in the table below.") if more > 0 else ""
    return tag("div", {"class": "alarm", "role": "note"}, tag("ul", None, *items[:BROKEN_MAX]), rest)


def verdict_table(audit: AuditVerdicts) -> str:
    """The table of all properties."""
    rows: list[tuple[Cell, ...]] = []
    for name in properties(audit):
        broken = [one for one in audit.broken if one.property == name]
        caption = Raw(escape(statement_of(name)) + _witnesses(broken))
        rows.append((texts.short(name, 90), caption, _verdict(audit, name, broken)))
    return table("Properties of extended virtual synchrony", COLUMNS, rows)


def _verdict(audit: AuditVerdicts, name: str, broken: list[FindingRow]) -> Raw:
    judged = sum(name in names for names in audit.judged.values())
    if not broken:
        where = f" in {texts.plural(judged, 'run')}" if len(audit.runs) > 1 else ""
        return Raw(tag("span", {"class": "good sign"}, escape(f"✓ holds{where}")))
    where = f" in {len(broken)} of {texts.plural(judged, 'run')}" if len(audit.runs) > 1 else ""
    return Raw(tag("span", {"class": "bad sign"}, escape(f"✗ broken{where}")))


def _witnesses(broken: list[FindingRow]) -> str:
    if not broken:
        return ""
    more = f" And in {texts.plural(len(broken) - 1, 'more run')}." if len(broken) > 1 else ""
    return tag("p", {"class": "told"}, _witness(broken[0]) + escape(more))


def _witness(one: FindingRow) -> str:
    run = f"run {texts.short(one.run)}: " if one.run else ""
    many = f" ({texts.plural(one.violations, 'violation')})" if one.violations > 1 else ""
    return tag(
        "span", {"class": "witness"}, escape(texts.short(f"{run}{one.witness}{many}", texts.WITNESS_CHARS_MAX))
    )


def _named(one: FindingRow) -> str:
    sentence = statement_of(one.property)
    return f"{texts.short(one.property, 90)}." + (f" {sentence}" if sentence else "")


def verdicts_section(audit: AuditVerdicts | None) -> tuple[str, str, str, str]:
    """The section Audit, also if there was none."""
    if audit is None or not properties(audit):
        return "audit", "Audit", "", paragraph("No audit was made of this run.", "empty")
    caption = (
        "Each property of extended virtual synchrony, judged by a query over the whole trace, causes first."
    )
    if len(audit.runs) > 1:
        caption += f" {texts.plural(len(audit.runs), 'history', 'histories')} were judged, each by itself."
    return "audit", "Audit", caption, verdict_table(audit)
