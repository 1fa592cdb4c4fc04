"""Sweeps over several machines: which are lent, how they are reached, and what comes back."""
