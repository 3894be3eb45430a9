"""Groups of calls that sessions and groups have beside sending and receiving, as base classes of both forms."""
