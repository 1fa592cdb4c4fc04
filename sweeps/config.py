"""One configuration: the values of the axes that exist under each other's values."""

from collections.abc import ItemsView, Iterator, Mapping

from sweeps.values import Value, digest, show_all


class Config(Mapping[str, Value]):
    """An immutable choice of axis values, in the order of the space; equal whatever the order.

    What is derived from the values is kept: a large sweep asks for it millions of times.
    """

    __slots__ = ("_hash", "_values", "_variant")

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)
        self._hash: int | None = None
        self._variant = ""

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> "Config":
        """Freeze a mapping."""
        return values if isinstance(values, cls) else cls(values)

    def __reduce__(self) -> "tuple[type[Config], tuple[dict[str, Value]]]":
        return Config, (self._values,)  # a hash of strings holds in one process only

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def items(self) -> ItemsView[str, Value]:
        """Return the names with their values."""
        return self._values.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._values == other._values

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._values.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Config({self._values!r})"

    def __str__(self) -> str:
        return show_all(self)

    @property
    def variant(self) -> str:
        """Return the key that all trials of this configuration share."""
        if not self._variant:
            self._variant = digest(self._values, length=8)
        return self._variant

    @property
    def algorithm(self) -> str | None:
        """Return the speculative algorithm; None is plain decode."""
        value = self.get("speculative_algorithm")
        return None if value is None else str(value)

    @property
    def is_plain(self) -> bool:
        """Tell whether this configuration decodes without speculation."""
        return self.algorithm is None
