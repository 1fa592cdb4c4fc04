"""Small charts as SVG. What is text is escaped here, and what is markup has that type.

Colours are classes of the page, so that light, dark and print differ in the style sheet alone;
every mark tells itself in a title, and leads to the row of its trial.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 28, 52
_LEAST_TICKS = 4
_NEAR_ZERO = 0.4
"""Of the highest value: where the lowest is less, a chart starts at zero."""

Ends = tuple[float | None, float | None]
"""Of an interval; None where it has none."""


def el(name: str, content: str | Markup = "", **attributes: object) -> Markup:
    """Write an element; `_` in names of attributes stands for `-`, `css` for `class`.

    Content is text, and escaped, unless it has the type of markup.
    """
    told = joined(
        Markup(' {}="{}"').format(
            "class" if key == "css" else key.replace("_", "-"), _attribute(value)
        )
        for key, value in attributes.items()
        if value is not None
    )
    tag = Markup(name)  # names of elements stand in this program alone
    if not content:
        return Markup("<{}{}/>").format(tag, told)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, told, escape(content))


def joined(parts: Iterable[str | Markup]) -> Markup:
    """Put parts together; what is no markup is escaped."""
    return Markup("").join(parts)


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def label(x: float, y: float, words: str, css: str = "", anchor: str = "start") -> Markup:
    """Write words at a place."""
    return el("text", words, x=x, y=y, css=css or None, text_anchor=anchor)


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to places on the page; `log` puts equal factors at equal distances."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        return self.start + (self.end - self.start) * self.share(value)

    def share(self, value: float) -> float:
        """Return how far between the ends a number lies, 0 to 1; what is outside is cut off."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = (math.log(max(number, 1e-12)) for number in (low, high, value))
        return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Return round numbers between the ends."""
        if self.log:
            powers = [2.0**k for k in range(-10, 24)]
            return [power for power in powers if self.low <= power <= self.high]
        return ticks_between(self.low, self.high)


def ticks_between(low: float, high: float) -> list[float]:
    """Return four to nine round numbers between two."""
    if not high > low:
        return [low]
    base = 10.0 ** math.floor(math.log10((high - low) / _LEAST_TICKS))
    step = next(
        base * factor
        for factor in (5, 2, 1)
        if (high - low) / (base * factor) >= _LEAST_TICKS - 0.5
    )
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def around(values: Sequence[float], *, margin: float = 0.06) -> tuple[float, float]:
    """Return ends that hold all values with some room, from zero where that is not far."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = (high - low) * margin or abs(high) * 0.1 or 1.0
    return (0.0 if 0 <= low < _NEAR_ZERO * high else low - room), high + room


def number(value: float) -> str:
    """Write a number at a tick."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark stands for."""

    css: str
    tip: str
    trial: int | None = None
    """The number of the trial that it leads to."""
    variant: str = ""
    shape: str = "dot"
    """dot, ring, square, diamond, down or cross."""
    size: float = 5.0

    def attributes(self) -> dict[str, object]:
        """Return what the page's script finds it by."""
        return {"data_t": self.trial, "data_v": self.variant or None}


def drawn(mark: Mark, x: float, y: float) -> Markup:
    """Draw a mark at a place."""
    return el(
        "g", _shape(mark, x, y) + el("title", mark.tip), css=f"m {mark.css}",
        **mark.attributes(),
    )  # fmt: skip


def _shape(mark: Mark, x: float, y: float) -> Markup:
    r = mark.size
    d = 1.5 * r
    match mark.shape:
        case "square":
            return el("rect", x=x - r, y=y - r, width=2 * r, height=2 * r, css="f")
        case "diamond":
            return el("path", d=f"M{x:.1f} {y - d:.1f}l{d} {d}l{-d} {d}l{-d} {-d}z", css="f")
        case "down":
            return el("path", d=f"M{x - r:.1f} {y - r:.1f}h{2 * r}l{-r} {1.7 * r:.1f}z", css="o")
        case "cross":
            arms = f"l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}"
            return el("path", d=f"M{x - r:.1f} {y - r:.1f}{arms}", css="o")
        case shape:
            return el("circle", cx=x, cy=y, r=r, css="o" if shape == "ring" else "f")


@dataclass(slots=True)
class Plot:
    """A chart in the making: two scales, a frame, and what was drawn so far."""

    x: Scale
    y: Scale
    width: float = WIDTH
    height: float = HEIGHT
    parts: list[Markup] = field(default_factory=list)

    @classmethod
    def of(
        cls, x: tuple[float, float], y: tuple[float, float], *, log_x: bool = False,
        height: float = HEIGHT, left: float = LEFT, right: float = RIGHT,
    ) -> "Plot":  # fmt: skip
        """Make one over these ranges."""
        across = Scale(*x, left, WIDTH - right, log_x)
        return cls(across, Scale(*y, height - BOTTOM, TOP), height=height)

    def frame(self, x_label: str, y_label: str, *, x_ticks: Sequence[float] | None = None) -> None:
        """Draw grid lines with their numbers, and what the axes are."""
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        for tick in self.y.ticks():
            at = self.y(tick)
            self.line(left, at, right, at, "grid")
            self.parts.append(label(left - 8, at + 4, number(tick), "tick", "end"))
        for tick in self.x.ticks() if x_ticks is None else x_ticks:
            at = self.x(tick)
            self.line(at, bottom, at, bottom + 4, "axis")
            self.parts.append(label(at, bottom + 18, number(tick), "tick", "middle"))
        self.line(left, bottom, right, bottom, "axis")
        self.parts.append(label((left + right) / 2, self.height - 10, x_label, "name", "middle"))
        turned = f"rotate(-90 16 {(top + bottom) / 2:.0f})"
        self.parts.append(
            el("text", y_label, x=16, y=(top + bottom) / 2, css="name",
               text_anchor="middle", transform=turned)
        )  # fmt: skip

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """Draw a line between two places."""
        self.parts.append(
            el("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), css=css)
        )

    def path(self, points: Sequence[tuple[float, float]], css: str) -> None:
        """Draw a line through points of the scales."""
        if len(points) > 1:
            told = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
            self.parts.append(el("polyline", points=told, css=f"line {css}"))

    def area(self, points: Sequence[tuple[float, float]], css: str) -> None:
        """Fill what points of the scales go round."""
        told = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(el("polygon", points=told, css=f"area {css}"))

    def bars(self, x: Ends | None, y: Ends | None, at: tuple[float, float], css: str) -> None:
        """Draw the intervals of a point, as far as it has any."""
        if x is not None and x[0] is not None and x[1] is not None:
            self.line(self.x(x[0]), self.y(at[1]), self.x(x[1]), self.y(at[1]), f"err {css}")
        if y is not None and y[0] is not None and y[1] is not None:
            self.line(self.x(at[0]), self.y(y[0]), self.x(at[0]), self.y(y[1]), f"err {css}")

    def mark(self, mark: Mark, x: float, y: float) -> None:
        """Draw a mark at a point of the scales."""
        self.parts.append(drawn(mark, self.x(x), self.y(y)))

    def note(
        self, x: float, y: float, words: str, css: str = "note", anchor: str = "start"
    ) -> None:
        """Write words at a place of the page."""
        self.parts.append(label(x, y, words, css, anchor))

    def svg(self, key: str, title: str, desc: str, *, emulated: bool) -> Markup:
        """Close the chart: who cannot see it hears the title and the description."""
        if emulated:
            at = (self.x.end, self.y.end - 10)
            self.parts.append(label(*at, "EMULATED", "stamp", "end"))
        head = el("title", title, id=f"{key}-t") + el("desc", desc, id=f"{key}-d")
        body = head + joined(self.parts)
        box = f"0 0 {self.width:.0f} {self.height:.0f}"
        names = f"{key}-t {key}-d"
        return el("svg", body, viewBox=box, role="img", aria_labelledby=names, css="chart")
