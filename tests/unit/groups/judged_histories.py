"""Checks recorded sessions by EVS-C, and that all daemons have the same groups."""

from collections.abc import Collection

from tests.unit.groups.session_histories import SessionHistories

from hopring.check.judge import check_evs_c
from hopring.groups.groups import Groups
from hopring.groups.names import GroupViewId
from hopring.ordering.entry import Position


def judge(book: SessionHistories, daemons: Collection[Groups]) -> list[str]:
    """All violations as texts; the daemons are in one view, and nothing is in flight."""
    everybody = {f"d{one.me.daemon}" for one in daemons}
    verdicts = check_evs_c(book.history, quiet_end=True, components=[everybody])
    faults = [f"{one.property}: {one.witness}" for one in verdicts if not one]
    tables = [_table(one) for one in daemons]
    if any(one != tables[0] for one in tables):
        faults.append("the daemons do not have the same groups")
    shown: dict[str, set[GroupViewId]] = {}
    for one in daemons:
        for name, group in one.table.groups.items():
            if group.local:
                shown.setdefault(name, set()).add(group.id)
    if any(len(ids) > 1 for ids in shown.values()):
        faults.append("members of one group do not have the same view of it")
    return faults


def _table(groups: Groups) -> object:
    """State that must be the same at every daemon: the members of each group, and the ids that would follow."""
    ids, place = groups.views.ids, Position(1_000_000, 0)
    return (
        ids,
        {
            name: (one.members, one.closing_path, ids.after(one.id, place))
            for name, one in groups.table.groups.items()
        },
    )
