"""A service that the product does not have: a total order without the promises of FIFO and causal order.

It is two lines in the table of services, and nothing else. A process that calls `install` before it imports
anything of hopring has a hopring with seven services.
"""

import sys
from pathlib import Path
from types import ModuleType

TABLE = Path(__file__).parents[2] / "src" / "hopring" / "services.py"
ROWS = {
    "    SAFE = 6\n": "    TOTAL = 7\n",
    'Service.SAFE: frozenset({"reliable", "fifo", "causal", "total", "stable"}),\n': (
        '    Service.TOTAL: frozenset({"reliable", "total"}),\n'
    ),
}


def install() -> None:
    """Puts the table with a seventh row in the place of the product's."""
    assert "hopring.services" not in sys.modules, "too late: somebody has the six services"
    source = TABLE.read_text()
    for line, more in ROWS.items():
        assert source.count(line) == 1, f"the table has no row {line!r}"
        source = source.replace(line, line + more)
    module = ModuleType("hopring.services")
    module.__file__ = str(TABLE)
    sys.modules["hopring.services"] = module
    exec(compile(source, str(TABLE), "exec"), module.__dict__)
