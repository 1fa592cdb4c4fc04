"""The vocabulary of a space file."""

from sweeps.axes import Choice, FloatRange, IntRange, switch
from sweeps.expressions import ref
from sweeps.hosts import EngineName, HostSpec
from sweeps.limits import Limit
from sweeps.search.steps import Taste
from sweeps.space import Rule
from sweeps.sweep import Budget, Model, Objective, Sweep
from sweeps.workloads import Workload

__all__ = [
    "Budget", "Choice", "EngineName", "FloatRange", "HostSpec", "IntRange", "Limit", "Model",
    "Objective", "Rule", "Sweep", "Taste", "Workload", "ref", "switch",
]  # fmt: skip
