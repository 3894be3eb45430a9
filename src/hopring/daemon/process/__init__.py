"""The daemon as a process: command line, files, log, reload of its configuration."""
