"""The report of a sweep as one HTML page that needs nothing else: no network, no other file."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from sweeps.reporting import (
    axes,
    break_even,
    concurrency,
    cycles,
    endings,
    foretold,
    history,
    timeline,
)
from sweeps.reporting import cache as warmth
from sweeps.reporting import promises as promised
from sweeps.reporting.markdown import answer_lines
from sweeps.reporting.parts import Section
from sweeps.reporting.promises import Promise, Promises
from sweeps.reporting.story import Story
from sweeps.reporting.trial_table import head_of, rows_of

if TYPE_CHECKING:
    from jinja2 import Template

_PRINTED = (
    '@media print{@page{@top-right{content:"EMULATED";font:bold 9pt sans-serif;color:#8a3b00}}}'
)


@dataclass(frozen=True, slots=True)
class Beside:
    """What a page shows that the results do not hold."""

    answers: Mapping[int, Sequence[warmth.Answered]] = field(default_factory=dict)
    """Requests of the trials that `cache.chosen` names, by number, in their order."""
    predicted: Mapping[int, Promise] = field(default_factory=dict)
    """What was expected of trials before they started, by their numbers."""
    promises: Promises | None = None
    """How well they were kept, by all trials."""
    facts: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    """What was found on each host: a title, and labels with words."""
    spools: Mapping[int, str] = field(default_factory=dict)
    """Where the samples of each trial lie, from the state folder."""
    made_at: str = ""


def page(story: Story, beside: Beside) -> str:
    """Write the page: answer first, then why."""
    style = _asset("report.css") + (Markup(_PRINTED) if story.emulated else "")
    script = _asset("report.js")
    return _template().render(
        story=story,
        about=story.about,
        answer=story.answer,
        answer_lines=answer_lines(story),
        sections=sections(story, beside),
        facts=beside.facts,
        head=head_of(story),
        trials=rows_of(story, beside.spools),
        made_at=beside.made_at,
        style=style,
        script=script,
        policy=_policy(style, script),
    )


def _policy(style: str, script: str) -> str:
    """Allow the page its own style and its own script alone: no text of a sweep can become one."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def sections(story: Story, beside: Beside) -> tuple[Section, ...]:
    """Return the parts of the page that there is something to tell of, in their order."""
    found = [
        break_even.section(story),
        cycles.section(story),
        *axes.sections(story),
        concurrency.section(story),
        endings.trade_offs(story),
        warmth.section(story, beside.answers),
        foretold.section(story, {n: one.tok_s for n, one in beside.predicted.items()}),
        promised.section(story, beside.promises),
        history.section(story),
        timeline.section(story),
        *endings.sections(story),
    ]
    return tuple(section for section in found if section is not None)


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined  # slow to import

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("report.html"))


def _asset(name: str) -> Markup:
    return Markup(files("sweeps.reporting").joinpath("assets", name).read_text(encoding="utf-8"))
