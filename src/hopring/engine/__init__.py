"""The interface of engines: ordered messages and views, for everything above."""
