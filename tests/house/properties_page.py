"""Generates the table of docs/properties.md from the properties themselves.

    python -m tests.house.properties_page

The page keeps its own text outside the two marks; a test checks that the part between them is up to date.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from hopring.check.properties import SECTIONS
from hopring.check.properties.property import Clause, Property

PAGE = Path(__file__).parents[2] / "docs" / "properties.md"
BEGIN = "<!-- Made by tests/house/properties_page.py from check/properties/: change it there. -->\n"
END = "<!-- The end of the part that is made. -->\n"
SAME = "the same."
WIDTH = 118


def lines_of(section: str, properties: tuple[Property, ...]) -> Iterator[str]:
    """The section of one property on the page."""
    yield f"### {section[0].upper()}{section[1:]}"
    yield ""
    for one in properties:
        yield f"#### {one.name}"
        yield ""
        yield one.statement
        yield ""
        for clause in one.clauses:
            yield from _lines_of_clause(clause)
        yield ""


def _lines_of_clause(clause: Clause) -> Iterator[str]:
    if clause.part:
        yield from _wrapped(f"- {clause.part} {clause.statement}")
    margin = "  " if clause.part else ""
    if clause.daemons:
        yield from _wrapped(f"{margin}- Daemons: {_lower(clause.daemons)}")
    if clause.beyond:
        yield from _wrapped(f"{margin}- Beyond plain EVS: {clause.beyond}.")
    yield from _wrapped(f"{margin}- Clients: {_lower(clause.clients) or SAME}")


def _wrapped(line: str) -> list[str]:
    margin = " " * (line.index("-") + 2)
    return textwrap.wrap(line, WIDTH, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def _lower(text: str) -> str:
    """The text as it continues after a colon; names in code and the set T keep their case."""
    first, _, rest = text.partition(" ")
    return f"{first.lower()} {rest}" if first.istitle() and first != "T" else text


def generated() -> str:
    """The part of the page between the marks."""
    lines = [line for section, properties in SECTIONS.items() for line in lines_of(section, properties)]
    return "\n".join(lines)


def page(text: str) -> str:
    """The whole page with its generated part up to date."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{generated()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
