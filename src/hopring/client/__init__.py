"""The client library: sessions, groups, and one ordered stream of messages and views."""
