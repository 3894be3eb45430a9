"""Support for tests: single links and overlays in virtual time, their checkers, and scenario files."""
