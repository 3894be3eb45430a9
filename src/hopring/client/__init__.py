"""The library that applications use: sessions, groups, and one ordered stream of messages and views."""
