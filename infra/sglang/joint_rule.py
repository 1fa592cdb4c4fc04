"""The form of a rule over several settings."""

from collections.abc import Callable
from dataclasses import dataclass

from infra.sglang.configuration import Configuration

Test = Callable[[Configuration], bool]


@dataclass(frozen=True, slots=True)
class JointRule:
    """What settings may not be together, in the versions that have the rule."""

    name: str
    fields: tuple[str, ...]
    """The settings that break it together, by SGLang's names."""
    breaks: Test
    message: str
    mend: str
    first: str = "0.5.2"
    last: str | None = None


def both_on(first: str, second: str) -> Test:
    """Hold where two switches are on."""
    return lambda c: c.on(first) and c.on(second)
