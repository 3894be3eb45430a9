"""Small objects that mypyc compiles to native classes: values, which do not change once made, and mutable ones.

Both are final classes with an `__init__` in the source that keeps its arguments as attributes of the same
names, in their order. Compiled, attributes lie at fixed places and `isinstance` compares pointers. A dataclass
has native attributes too, but its `__init__` is interpreted: use one for objects that are made rarely. The
methods here go by the names of the fields and are slow: hot code does not compare or copy.

Invariants  an object equals only objects of its own class with equal fields; its fields are the parameters of
            `__init__`.
Limits      compiled values refuse to be changed, because their attributes are `Final`; for interpreted ones the
            type checker sees to it.
"""

from typing import Any, Self


class Mutable:  # noqa: PLW1641  # Its fields change, so it has no hash.
    """The base of small objects that change: equality and representation by their fields."""

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    def __repr__(self) -> str:
        return _representation_of(self)


class Value:
    """The base of values: equality, hash, representation, copies and pickles by their fields."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in fields_of(self)} | changes)

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, name) for name in fields_of(self)]))

    def __repr__(self) -> str:
        return _representation_of(self)

    def __reduce__(self) -> Any:
        return type(self), tuple([getattr(self, name) for name in fields_of(self)])


def fields_of(one: object) -> tuple[str, ...]:
    """The names of the fields: compiled, as mypyc records them; otherwise, as `__init__` has set them."""
    recorded: tuple[str, ...] | None = getattr(type(one), "__mypyc_attrs__", None)
    return tuple(vars(one)) if recorded is None else recorded


def _are_equal(one: object, other: object) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    return all(getattr(one, name) == getattr(other, name) for name in fields_of(one))


def _representation_of(one: object) -> str:
    fields = [f"{name}={getattr(one, name)!r}" for name in fields_of(one)]
    return f"{type(one).__name__}({', '.join(fields)})"
