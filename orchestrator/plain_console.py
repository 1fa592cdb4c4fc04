"""Rich's console for values of others: no markup, no emoji, and nothing that a terminal obeys."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from orchestrator.terminal import PlainStream, plain


class PlainConsole(Console):
    """Writes the styles and the cursor's moves of Rich itself, and of all else the text."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(plain(text), style)


def plain_console(*, stderr: bool = False, **options: Any) -> PlainConsole:
    """Return a console; the options are Rich's."""
    stream = sys.stderr if stderr else sys.stdout
    file = stream.raw if isinstance(stream, PlainStream) else None
    return PlainConsole(file=file, stderr=stderr, markup=False, emoji=False, **options)
