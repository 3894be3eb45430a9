"""The command `hop`: thin commands over the packages below."""
