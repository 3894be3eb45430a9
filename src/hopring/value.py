"""The base of the words of the hot path: small values that do not change once they are made.

This module is never compiled. mypyc leaves out the options of a struct that is defined in a compiled module, so
such a struct takes them from this base; `frozen=True` beside it is for the type checker and for the reader.
mypyc also takes `==` of two such structs for `is`: compiled code asks for `same`, and `compile_core.py` refuses
anything else.
"""

from typing import Any, Self

import msgspec


class Value(msgspec.Struct, frozen=True):
    """A frozen struct: it cannot be changed, has a hash, and is equal only to its own kind."""

    def same(self, other: object) -> bool:
        """Whether the other is equal, which compiled code cannot ask with `==`."""
        return self == other

    def but(self, **changes: Any) -> Self:
        """The same with some fields otherwise."""
        return msgspec.structs.replace(self, **changes)
