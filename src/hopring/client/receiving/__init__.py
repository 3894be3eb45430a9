"""Events on their way to the application: streams, runs of messages, repeated batches, replays."""
