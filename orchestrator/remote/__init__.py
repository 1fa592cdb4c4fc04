"""Sweeps on another machine: sent there, started, followed, stopped and fetched over SSH."""
