"""Finding the line of a key path."""

import pytest

from hopring.config.error import find_line

TEXT = """\
cluster = "x"

[sites.eu]
multicast = { group = "239.0.0.1", port = 1 }
ring.hold = "1ms"

[[sites.eu.daemons]]
name = "a"
[[ sites . eu . daemons ]]  # The second.
  'port' = 70000

[sites."a.b"]
x = 1
[[sites."a.b".daemons]]
name = "c"
"""


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("cluster", 1),
        ("sites.eu", 3),
        ("sites.eu.ring.hold", 5),
        ("sites.eu.daemons[0].name", 8),
        ("sites.eu.daemons[1].port", 10),
        ('sites."a.b".x', 13),
        ('sites."a.b".daemons[0].name', 15),
        ("sites.eu.multicast.port", 4),
        ("sites.eu.daemons[0].missing", 7),
        ("nowhere", None),
        ("", None),
    ],
)
def test_a_key_is_found_or_else_what_encloses_it(where: str, line: int | None) -> None:
    assert find_line(TEXT, where) == line
