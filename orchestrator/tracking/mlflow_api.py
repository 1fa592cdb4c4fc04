"""What is used of MLflow, as a value: so that one module imports it and others need not."""

from dataclasses import dataclass
from typing import Any

from orchestrator.tracking.legal import Limits


@dataclass(frozen=True, slots=True)
class MlflowApi:
    """A client, three makers, the error of all calls, and the limits that MLflow states."""

    client: Any
    metric: Any
    param: Any
    run_tag: Any
    exception: type[Exception]
    limits: Limits


PASSING_ERRORS = frozenset(
    {"TEMPORARILY_UNAVAILABLE", "RESOURCE_EXHAUSTED", "REQUEST_LIMIT_EXCEEDED",
     "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED"}
)  # fmt: skip
"""Codes of errors that say nothing about what was sent; a locked SQLite file is among them."""
