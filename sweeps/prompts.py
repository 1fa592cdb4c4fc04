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

    @classmethod
    def after(cls, *turns: str) -> "Prompt":
        """Make a later turn: the texts are the user's and the assistant's by turns."""
        roles = ("user", "assistant")
        return cls(tuple(Message(roles[at % 2], text) for at, text in enumerate(turns)))

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


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts of which no two are equal, in the order of their source."""

    prompts: tuple[Prompt, ...]
    contents: str
    """The hash of them all."""
    passed_over: int = 0
    """Entries of the source that repeat another or ask nothing."""
    unsent: tuple[str, ...] = ()
    """What entries hold beside their prompts: mostly keys, the most frequent first."""

    @classmethod
    def of(
        cls, prompts: Iterable[Prompt], passed_over: int = 0, unsent: tuple[str, ...] = ()
    ) -> "PromptSet":
        """Keep the first of equal prompts, and count the others with what was passed over."""
        given = list(prompts)
        distinct = tuple(dict.fromkeys(given))
        passed_over += len(given) - len(distinct)
        return cls(distinct, digest([p.key for p in distinct]), passed_over, unsent)


def prompts_of(texts: Iterable[str]) -> list[Prompt]:
    """Make prompts of one turn."""
    return [Prompt.of(text) for text in texts]
