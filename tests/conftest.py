import os

import pytest

# Tests plant bugs and inspect objects, so they run the sources; HOPRING_PURE=0 runs them compiled.
os.environ.setdefault("HOPRING_PURE", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="record what happens in the scenarios instead of comparing"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from hopring import compiled  # noqa: PLC0415  Only now is it decided which code it finds.

    if compiled.active():
        reason = pytest.mark.skip(reason="plants bugs or replaces functions, which compiled code does not see")
        for item in items:
            if item.get_closest_marker("interpreted"):
                item.add_marker(reason)
