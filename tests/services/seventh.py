"""A service outside the product: a total order without the guarantees of FIFO and causal order.

It is two lines in the table of services, and nothing else. In a process that calls `install` before it imports
anything of hopring, hopring has seven services.
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
    """Replaces the table of the product by one with a seventh row."""
    assert "hopring.services" not in sys.modules, "hopring.services is already imported"
    source = TABLE.read_text()
    for line, more in ROWS.items():
        assert source.count(line) == 1, f"the table has no row {line!r}"
        source = source.replace(line, line + more)
    module = ModuleType("hopring.services")
    module.__file__ = str(TABLE)
    sys.modules["hopring.services"] = module
    exec(compile(source, str(TABLE), "exec"), module.__dict__)
