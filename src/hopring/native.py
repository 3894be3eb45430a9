"""Values as compiled code has them: what `hopring.value` is to interpreted code.

`expand.py` writes the fields of each value out for mypyc, and puts this in the place of the struct. What stands
here goes by the names of the fields, and is slow; on the hot path nobody compares.
"""

from typing import Any, ClassVar, Self


class Value:
    """It is not changed, has a hash, and is equal only to its own kind."""

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def same(self, other: object) -> bool:
        """Whether the other is equal."""
        return self == other

    def but(self, **changes: Any) -> Self:
        """The same with some fields otherwise."""
        return type(self)(**{name: getattr(self, name) for name in type(self).__match_args__} | changes)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        names = type(self).__match_args__
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, name) for name in type(self).__match_args__]))

    def __repr__(self) -> str:
        told = [f"{name}={getattr(self, name)!r}" for name in type(self).__match_args__]
        return f"{type(self).__name__}({', '.join(told)})"

    def __reduce__(self) -> Any:
        return type(self), tuple([getattr(self, name) for name in type(self).__match_args__])
