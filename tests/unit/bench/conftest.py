"""The command `hop`, for tests of `hop bench`."""

from tests.unit.cli.conftest import hop

__all__ = ["hop"]
