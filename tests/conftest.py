import gc
import os
import signal

import pytest
from hypothesis import settings

# Collecting makes a million objects that all stay: looking for garbage among them takes a tenth of the time of
# all tests.
gc.disable()

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Tests plant bugs and inspect objects, so they run the sources; HOPRING_PURE=0 runs them compiled.
os.environ.setdefault("HOPRING_PURE", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="record what happens in the scenarios instead of comparing"
    )


def pytest_configure() -> None:
    # A shell starts its background jobs with SIGINT ignored, and processes of tests would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


LONG_SECONDS_MAX = 2 * 3600
"""When a test that is marked `long` counts as hanging; others have `timeout` of pyproject.toml."""
SPARK_SECONDS_MAX = 1800
"""The same of tests on Spark: a broken off call of Java spoils the session of all tests behind it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS_MAX))
        elif item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(SPARK_SECONDS_MAX))
    from hopring import compiled  # noqa: PLC0415  Only now is it decided which code it finds.

    if compiled.active():
        reason = pytest.mark.skip(reason="plants bugs or replaces functions, which compiled code does not see")
        for item in items:
            if item.get_closest_marker("interpreted"):
                item.add_marker(reason)
