"""Extended virtual synchrony of clients (EVS-C): one function per property, group by group.

`docs/properties.md` says where clients are promised less than daemons. What is the same is the same function:
each group is a history of its own, in the words of `check.evs`.
"""

from hopring.check.evs_c.judge import check_evs_c, first_broken_c

__all__ = ["check_evs_c", "first_broken_c"]
