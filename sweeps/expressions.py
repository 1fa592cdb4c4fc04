"""Expressions over axes, kept as data so that rules can be checked, printed and hashed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add, ge, gt, le, lt, mul, sub
from typing import NoReturn

from sweeps.values import Value, show

Number = int | float


class UnsetError(Exception):
    """An expression needed a number where the axis is unset."""


class Expr:
    """A node of an expression; combine with <, <=, >, >=, +, -, *, &, | and ~."""

    __slots__ = ()

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        """Compute over settings. Raises UnsetError where arithmetic meets an unset axis."""
        raise NotImplementedError

    def names(self) -> frozenset[str]:
        """Name the axes that the expression reads."""
        raise NotImplementedError

    def __lt__(self, other: "Expr | Value") -> "Expr":
        return Binary("<", self, lift(other))

    def __le__(self, other: "Expr | Value") -> "Expr":
        return Binary("<=", self, lift(other))

    def __gt__(self, other: "Expr | Value") -> "Expr":
        return Binary(">", self, lift(other))

    def __ge__(self, other: "Expr | Value") -> "Expr":
        return Binary(">=", self, lift(other))

    def __add__(self, other: "Expr | Value") -> "Expr":
        return Binary("+", self, lift(other))

    def __sub__(self, other: "Expr | Value") -> "Expr":
        return Binary("-", self, lift(other))

    def __mul__(self, other: "Expr | Value") -> "Expr":
        return Binary("*", self, lift(other))

    def __and__(self, other: "Expr") -> "Expr":
        return Both(self, other)

    def __or__(self, other: "Expr") -> "Expr":
        return Either(self, other)

    def __invert__(self) -> "Expr":
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "an expression has no truth value: join with & | ~, not with and, or, not or a < b < c"
        )

    def equals(self, value: Value) -> "Expr":
        """Hold where the axis has exactly this value."""
        return IsIn(self, (value,))

    def one_of(self, *values: Value) -> "Expr":
        """Hold where the axis has one of these values."""
        return IsIn(self, values)

    def is_set(self) -> "Expr":
        """Hold where the axis has any value but unset."""
        return Not(IsIn(self, (None,)))


@dataclass(frozen=True, slots=True, eq=False)
class Ref(Expr):
    """The value of an axis."""

    name: str

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return values.get(self.name)

    def names(self) -> frozenset[str]:
        return frozenset({self.name})

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant."""

    value: Value

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return self.value

    def names(self) -> frozenset[str]:
        return frozenset()

    def __str__(self) -> str:
        return show(self.value)


_OPERATORS: dict[str, Callable[[Number, Number], Number]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge, "+": add, "-": sub, "*": mul,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    """A comparison or a sum of two numbers."""

    operator: str
    left: Expr
    right: Expr

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return _OPERATORS[self.operator](
            _number(self.left.evaluate(values)), _number(self.right.evaluate(values))
        )

    def names(self) -> frozenset[str]:
        return self.left.names() | self.right.names()

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True, slots=True, eq=False)
class Both(Expr):
    """Holds where both sides hold."""

    left: Expr
    right: Expr

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return bool(self.left.evaluate(values)) and bool(self.right.evaluate(values))

    def names(self) -> frozenset[str]:
        return self.left.names() | self.right.names()

    def __str__(self) -> str:
        return f"({self.left} and {self.right})"


@dataclass(frozen=True, slots=True, eq=False)
class Either(Expr):
    """Holds where one side holds."""

    left: Expr
    right: Expr

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return bool(self.left.evaluate(values)) or bool(self.right.evaluate(values))

    def names(self) -> frozenset[str]:
        return self.left.names() | self.right.names()

    def __str__(self) -> str:
        return f"({self.left} or {self.right})"


@dataclass(frozen=True, slots=True, eq=False)
class Not(Expr):
    """Holds where the inner one does not."""

    inner: Expr

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return not self.inner.evaluate(values)

    def names(self) -> frozenset[str]:
        return self.inner.names()

    def __str__(self) -> str:
        return f"not {self.inner}"


@dataclass(frozen=True, slots=True, eq=False)
class IsIn(Expr):
    """Holds where the inner value is one of a list."""

    inner: Expr
    values: tuple[Value, ...]

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        return self.inner.evaluate(values) in self.values

    def names(self) -> frozenset[str]:
        return self.inner.names()

    def __str__(self) -> str:
        return f"({self.inner} in [{', '.join(map(show, self.values))}])"


def ref(name: str) -> Expr:
    """Refer to an axis by its name."""
    return Ref(name)


def lift(value: "Expr | Value") -> Expr:
    """Take a plain value as a constant."""
    return value if isinstance(value, Expr) else Literal(value)


def _number(value: Value) -> Number:
    if value is None:
        raise UnsetError
    return float(value)
