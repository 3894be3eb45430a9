"""The driver of a peer: sockets, loop and session server of a process of RMP that serves one session."""
