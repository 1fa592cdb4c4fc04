"""What gave no rate, what was closed, what changes nothing, and what was held alike."""

from collections.abc import Iterator

from sweeps.metrics import known_metric
from sweeps.naming import short
from sweeps.phrases import counted, figure
from sweeps.reporting.parts import Cell, Section, Table, numbers_of
from sweeps.reporting.story import Story
from sweeps.values import show


def trade_offs(story: Story) -> Section | None:
    """Tell the variants that none beats in all objectives; None where there is one objective."""
    if not story.front:
        return None
    numbers = {r.config.variant: r.number for r in story.results}
    metrics = tuple(story.about.goal.directions)
    rows = tuple(
        (
            Cell(short(point.config), (numbers[point.config.variant],)),
            *(Cell(figure(value), (), value) for value in point.values),
        )
        for point in story.front
    )
    head = ("variant", *(f"{name}, {known_metric(name).unit}" for name in metrics))
    lead = ("Every other variant is beaten by one of these in all of them.",)
    table = Table(f"{story.word}trade-offs between the objectives", head, rows, open=True)
    return Section("trade-offs", "Trade-offs between the objectives", lead, tables=(table,))


def sections(story: Story) -> Iterator[Section]:
    """Write them, as far as there is something to tell."""
    if story.failures:
        yield _failures(story)
    if story.closed or story.inert or story.alike or story.pins:
        yield _settings(story)


def _failures(story: Story) -> Section:
    numbers = numbers_of(story.results)
    rows = tuple(
        (
            Cell(f.signature.replace("_", " ")),
            Cell(f.outcome.value),
            Cell(counted(len(f.trials), "trial"),
                 tuple(numbers[t] for t in f.trials if t in numbers), len(f.trials)),
            Cell(", ".join(f.phases)),
            Cell(f.reason),
            Cell(f.hint or "nothing is known to help"),
            Cell(figure(f.gpu_hours), (), f.gpu_hours),
        )
        for f in story.failures
    )  # fmt: skip
    head = ("what", "outcome", "trials", "while", "the first said", "what to do", story.ledger.unit)
    lead = (
        "None of these is slow: infeasible cannot run here, hung made no progress, failed was the"
        " host's or the platform's fault and says nothing about the configuration.",
    )
    table = Table(f"{story.word}failures by signature", head, rows, open=True)
    return Section("failures", "What failed, and what to do", lead, tables=(table,))


def _settings(story: Story) -> Section:
    bullets = [f"Closed: {closed}." for closed in story.closed]
    bullets += [f"Without effect: {effect}." for effect in story.inert]
    bullets += [f"Alike: {names}." for names in story.alike]
    rows = tuple((Cell(name), Cell(show(value))) for name, value in story.pins.items())
    pins = Table("Settings that every server had alike", ("setting", "value"), rows)
    lead = () if bullets else ("No axis was closed, and none was seen to be without effect.",)
    return Section(
        "settings", "Closed, without effect, held alike", lead,
        tables=(pins,) if rows else (), bullets=tuple(bullets),
    )  # fmt: skip
