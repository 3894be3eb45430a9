"""docs/properties.md has the statements of the properties as they are in the code."""

from tests.house.properties_page import PAGE, page

from hopring.check.properties import PROPERTIES


def test_the_page_is_made_from_the_properties() -> None:
    text = PAGE.read_text()

    assert page(text) == text, "run: python -m tests.house.properties_page"


def test_every_property_has_a_statement_for_everyone_to_whom_it_is_promised() -> None:
    for one in PROPERTIES:
        assert one.clauses
        assert all(clause.statement.endswith(".") for clause in one.clauses)
        assert bool(one.daemons) == any(clause.daemons for clause in one.clauses)
