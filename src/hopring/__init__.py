"""hopring: wide-area group communication with extended virtual synchrony."""

__version__ = "0.1.0"
