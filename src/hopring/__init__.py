"""hopring: wide-area group communication with extended virtual synchrony."""

from hopring import compiled

__version__ = "0.1.0"

compiled.install()
