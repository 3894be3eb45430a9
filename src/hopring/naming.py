"""Texts for people: the numbers of daemons and sites become their names.

The layers below the drivers know numbers only. Their reasons say `daemon 2` or `site 1`; drivers pass such a
text through `named` before they show it to people.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from hopring.ids import DaemonId

_NUMBER: Final = re.compile(r"\b(daemon|site) (\d+)\b")


def named(text: str, daemons: Mapping[DaemonId, str], sites: Sequence[str] = ()) -> str:
    """`link with daemon 2` becomes `link with us1`, `site 1` becomes `site us`; unknown numbers stay."""

    def name_of(found: re.Match[str]) -> str:
        number = int(found[2])
        if found[1] == "daemon":
            return daemons.get(DaemonId(number), found[0])
        return f"site {sites[number]}" if number < len(sites) else found[0]

    return _NUMBER.sub(name_of, text)
