"""Mutation runs: small changes to modules that must be right; tests should notice each."""
