"""setuptools' own build backend, but a wheel also wants mypy to compile with; an editable install does not."""

from setuptools.build_meta import *  # noqa: F403
from setuptools.build_meta import get_requires_for_build_wheel as _setuptools_requires


def get_requires_for_build_wheel(config_settings: dict[str, str] | None = None) -> list[str]:
    """What has to be there before a wheel is built; msgspec for its types."""
    return [*_setuptools_requires(config_settings), "mypy>=1.13", "msgspec>=0.19"]
