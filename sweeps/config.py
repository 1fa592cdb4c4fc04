"""One configuration: the values of the axes that exist under each other's values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweeps.values import Value, digest, show_all


@dataclass(frozen=True, slots=True)
class Config(Mapping[str, Value]):
    """An immutable choice of axis values, in the order of the space; equal whatever the order."""

    items_: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> "Config":
        """Freeze a mapping."""
        return cls(tuple(values.items()))

    def __getitem__(self, name: str) -> Value:
        for key, value in self.items_:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and dict(self.items_) == dict(other.items_)

    def __hash__(self) -> int:
        return hash(frozenset(self.items_))

    def __str__(self) -> str:
        return show_all(self)

    @property
    def variant(self) -> str:
        """Return the key that all trials of this configuration share."""
        return digest(dict(self.items_), length=8)

    @property
    def algorithm(self) -> str | None:
        """Return the speculative algorithm; None is plain decode."""
        value = self.get("speculative_algorithm")
        return None if value is None else str(value)

    @property
    def is_plain(self) -> bool:
        """Tell whether this configuration decodes without speculation."""
        return self.algorithm is None
