"""Keys and certificates as files: reading them with care, making them, and checking a directory of them."""

from typing import Final

# They are here so that a command may name them in its help without importing `cryptography`.
AUTHORITY_DAYS: Final = 3650
DAEMON_DAYS: Final = 730
DAYS_MAX: Final = 36_500
