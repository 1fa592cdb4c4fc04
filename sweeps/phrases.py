"""How numbers, intervals and counts are put in words."""

from typing import Protocol


class Measured(Protocol):
    """A number that may have a 95 % interval."""

    @property
    def value(self) -> float:
        """Return the number."""
        ...

    @property
    def low(self) -> float | None:
        """Return the lower end."""
        ...

    @property
    def high(self) -> float | None:
        """Return the upper end."""
        ...


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def figure(value: float, unit: str = "") -> str:
    """Write a number with about three digits that say something, and its unit."""
    if value == int(value) and abs(value) < 1e15 and (unit == "tok" or abs(value) >= 1000):
        text = f"{int(value):,}"
    elif abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.2f}"
    return f"{text} {unit}".strip()


def with_interval(estimate: Measured, unit: str = "") -> str:
    """Write a number with its interval, or say that it has none."""
    text = figure(estimate.value, unit)
    if estimate.low is None or estimate.high is None:
        return f"{text}, without an interval"
    if estimate.low == estimate.value == estimate.high:
        return f"{text}, exact"
    return f"{text} (95 % interval {figure(estimate.low)} to {figure(estimate.high)})"


def counted(number: int, one: str, many: str = "") -> str:
    """Write a number of things, small numbers as words: `one request`, `three requests`."""
    return f"{number_word(number)} {one if number == 1 else many or one + 's'}"


def number_word(number: int) -> str:
    """Write a number of things, small ones as words."""
    return _WORDS[number] if 0 <= number < len(_WORDS) else f"{number:,}"


def listed(words: list[str], last: str = "and") -> str:
    """Join words as a sentence lists them."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def sentence(text: str) -> str:
    """Make a sentence of a phrase that may or may not begin and end as one."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def slower_or_faster(ratio: float) -> str:
    """Say by how much a rate differs from the one that it is divided by."""
    word = "slower" if ratio < 1 else "faster"
    if 0.45 <= ratio <= 0.55:
        return f"{word} by about half"
    if ratio >= 2:
        return f"{figure(ratio)} times as fast"
    return f"{word} by {abs(1 - ratio):.0%}".replace("%", " %")
