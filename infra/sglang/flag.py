"""What is known of one flag of SGLang over its versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sweeps.values import Value

NEWEST = "0.5.23"


@lru_cache(maxsize=256)
def version_key(version: str) -> tuple[int, ...]:
    """Order versions: `0.5.6.post2` comes after `0.5.6` and before `0.5.7`."""
    parts = version.replace("post", "").split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def within(version: str, first: str, last: str | None = None) -> bool:
    """Tell whether a version lies between two, both included; `last` None has no end."""
    at = version_key(version)
    return version_key(first) <= at and (last is None or at <= version_key(last))


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that a flag takes. Without any, it takes every value of its type."""

    first: tuple[str, ...] = ()
    later: tuple[tuple[str, str], ...] = ()
    """Those that came after the flag, each with its first version."""
    gone: tuple[tuple[str, str], ...] = ()
    """Those that left before the flag did, each with its last version."""

    @classmethod
    def of(
        cls,
        first: str,
        later: Mapping[str, str] | None = None,
        gone: Mapping[str, str] | None = None,
    ) -> "Choices":
        """Read choices that are written with blanks between them."""
        return cls(tuple(first.split()), _each(later or {}), _each(gone or {}))

    def in_version(self, version: str) -> tuple[str, ...]:
        """Return what a version takes."""
        gone = {choice for choice, last in self.gone if not within(version, "0", last)}
        present = (*self.first, *(c for c, first in self.later if within(version, first)))
        return tuple(choice for choice in present if choice not in gone)


ANY = Choices()


def _each(by_version: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((word, v) for v, words in by_version.items() for word in words.split())


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting. `kind` bool is a flag without a value; `last` None: it is still there."""

    kind: type
    default: Value = None
    choices: Choices = ANY
    first: str = "0.5.2"
    last: str | None = None
    low: float | None = None
    many: bool = False
    """It takes several values in a row."""
    defaults: tuple[tuple[str, Value], ...] = ()
    """Defaults that replaced the first one, each with its first version, oldest first."""
    alias: tuple[str, str] | None = None
    """From a version on, a deprecated spelling of another flag: version and name."""

    def exists_in(self, version: str) -> bool:
        """Tell whether a version knows the flag."""
        return within(version, self.first, self.last)

    def choices_in(self, version: str) -> tuple[str, ...]:
        """Return what a version accepts; empty where any value is."""
        return self.choices.in_version(version)

    def default_in(self, version: str) -> Value:
        """Return a version's default."""
        fitting = [value for first, value in self.defaults if within(version, first)]
        return fitting[-1] if fitting else self.default

    def stands_for(self, version: str) -> str:
        """Return the flag that this one is only a spelling of in a version; empty for itself."""
        if self.alias and within(version, self.alias[0]):
            return self.alias[1]
        return ""
