"""The other clients, ours as a program beside them, and the server that all of them read."""
