"""What one request asks: the messages of a conversation, of which the last awaits its answer."""

from collections.abc import Iterable
from dataclasses import dataclass

from sweeps.values import digest


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation so far; equal prompts are the same request."""

    messages: tuple[Message, ...]

    @classmethod
    def of(cls, text: str) -> "Prompt":
        """Make the first turn of a conversation."""
        return cls((Message("user", text),))

    @property
    def text(self) -> str:
        """Return all of it as one text, for an API that knows no turns."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(f"{message.role}: {message.content}" for message in self.messages)

    @property
    def key(self) -> str:
        """Return what tells prompts apart in records."""
        return digest([[message.role, message.content] for message in self.messages])


def prompts_of(texts: Iterable[str]) -> list[Prompt]:
    """Make prompts of one turn."""
    return [Prompt.of(text) for text in texts]
