"""What a sampler needs beside what is installed anyway; known without importing any."""

import importlib.util

from sweeps.problems import Problem

SAMPLER_NEEDS = {"gp": "torch"}


def sampler_problems(name: str) -> list[Problem]:
    """Say that a sampler needs a package that is not there."""
    needed = SAMPLER_NEEDS.get(name)
    if needed is None or importlib.util.find_spec(needed):
        return []
    why = f"it needs the package {needed}, which is not installed"
    return [Problem("sampler", name, why, f"Install {needed}, or use another sampler.")]
