"""Brings Ray up on several machines: a head here, and a node on each host, over SSH."""
