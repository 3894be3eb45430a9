"""Extended virtual synchrony of the daemons (EVS-S): one function per property of the thesis.

`docs/properties.md` says each property in words and in the form that is checked. Each function takes an indexed
`History` and gives a `Verdict`; `check_evs` makes the index and asks them all.
"""

from hopring.check.evs.judge import check_evs, first_broken

__all__ = ["check_evs", "first_broken"]
