"""The command hop; thin, every verb calls a room above."""
