"""What clients are promised (EVS-C), judged on the book of a world; and that the daemons know the same."""

from collections.abc import Collection

from tests.unit.groups.book import Book

from hopring.check.evs_c import check_evs_c
from hopring.groups.groups import Groups


def judge(book: Book, daemons: Collection[Groups]) -> list[str]:
    """All that is broken, in words; these daemons are in one view, and nothing is under way."""
    everybody = {f"d{one.me.daemon}" for one in daemons}
    verdicts = check_evs_c(book.history, quiet_end=True, components=[everybody])
    faults = [f"{one.property}: {one.witness}" for one in verdicts if not one]
    tables = [
        {name: (group.id, group.members, group.way) for name, group in one.table.groups.items()}
        for one in daemons
    ]
    if any(one != tables[0] for one in tables):
        faults.append("the daemons do not have the same groups")
    return faults
