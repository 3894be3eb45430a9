"""Encryption of datagrams between daemons: keys, sealed packets, protection against replay."""
