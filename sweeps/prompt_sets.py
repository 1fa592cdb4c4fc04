"""The built-in prompt sets. Each is 640 prompts that share little text with each other."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import product

from sweeps.prompt_copies import edits, quotes
from sweeps.prompt_topics import SOFTWARE, Topic, everyday
from sweeps.prompts import Prompt, PromptSet

_REASONING = (
    "Think step by step: what can go wrong with {topic} under load, and how would you find out?",
    "Compare three designs of {topic}. Reason about cost, failure and change before you choose.",
    "A team reports that {topic} became slow overnight. Work out the likely causes in order.",
    "Derive how the memory of {topic} grows with its input, and check the result on an example.",
    "You may ask five questions before you design {topic}. Reason about which five, and why.",
    "Two experts disagree whether {topic} needs a second machine. Argue both sides, then decide "
    "and explain what would change your mind.",
    "Estimate the yearly cost of {topic} for a town of 40,000 people. Calculate every step, and "
    "say how far each guess may be off.",
    "Prove or refute: {topic} can be tested fully without a real clock. Think of counterexamples.",
)
_CODE = (
    "Write a Python module for {topic}. Give the class, its methods and a short test.",
    "Here is the start of a module for {topic}:\n```python\nclass Model:\n    def __init__(self):\n"
    "        self.items = []\n```\nFinish it with add, remove, find and a summary method.",
    "Write the command line tool for {topic} with argparse, and explain each function.",
    "Port {topic} from a shell script to Python and keep the option names.",
    "Implement {topic} in TypeScript as one class with doc comments on all public members.",
    "Give the SQL schema for {topic}, then the five queries that its users run most.",
    "Write property-based tests in Python for {topic}; name each property in its function.",
    "Implement {topic} in Go with an interface, one struct that satisfies it, and a table test.",
)
_CHAT = (
    "In a few sentences, what is {topic} good for?",
    "Name the parts of {topic} and say what each does.",
    "What should a beginner read first about {topic}?",
    "Give a short example of a good day with {topic}.",
    "Write a friendly letter of two paragraphs that invites a neighbour to {topic}.",
    "Tell me three things that people get wrong about {topic}.",
    "Who would enjoy {topic}, and who would not? Describe both in a sentence each.",
    "List what I need to pack for a first afternoon with {topic}.",
)


def _crossed(templates: Iterable[str], topics: Iterable[str]) -> Iterator[Prompt]:
    for template, topic in product(templates, topics):
        yield Prompt.of(template.format(topic=topic))


_TALKS = (
    (
        "I just heard about {name} for the first time. What is it like?",
        "Most people notice {a} first. After a while {b} matters more, and those who stay with it "
        "end up talking about {c}. A first visit takes an hour, and nobody expects you to know "
        "anything beforehand.",
        "Tell me more about the second of these, in one paragraph.",
    ),
    (
        "We want to set up {name} in our town. What comes first?",
        "Begin with {a}: without it nothing else holds. Then look after {b}, which costs the most "
        "time, and leave {c} for the end, when the first helpers have settled in.",
        "And who should look after each of the three?",
        "One person for {a}, two who share {b}, and for {c} whoever has the most patience. Write "
        "the names on a sheet beside the door, so that everybody finds them.",
        "Good. Write the sheet: a title, three lines, and a closing sentence.",
    ),
    (
        "My grandmother spent years with {name}. Ask me something about her.",
        "Gladly. Did she ever speak of {a}? Or was it rather {b} that kept her busy?",
        "She spoke of nothing else than {c}.",
        "Then that is the thread of her story. I would open with one day on which it went wrong, "
        "and let the rest follow from there.",
        "Write the first paragraph of that story.",
    ),
    (
        "Settle a bet: with {name}, is it about {a} or about {b}?",
        "Both sides have a point. Those who say {a} are right about the beginning; those who say "
        "{b} are right about everything after the first month. And neither of you named {c}.",
        "Describe what {c} has to do with it, with an example.",
    ),
    (
        "Give me a plan for a Saturday with {name}.",
        "Nine o'clock: {a}. Half past eleven: {b}, with a break for tea. In the afternoon, when it "
        "gets quiet: {c}. Be home by six.",
        "It will rain all morning. Change the plan and list it again, one line for each hour.",
    ),
    (
        "I have to talk about {name} for five minutes on Monday, and I am nervous.",
        "Three points are enough. Open with {a}, since everybody can picture it. Go on to {b} and "
        "say what it costs. End with {c} and a question to the room.",
        "What do I say if somebody asks about the price?",
        "Say what you know and when you will know the rest. A number that you looked up beats a "
        "number that you made up, and an honest gap is soon forgiven.",
        "Now write out my first minute, word for word.",
    ),
    (
        "Yesterday something odd happened with {name}: {a} did not work at all.",
        "That happens more often than people admit. Have a look at {b} as well; the two tend to "
        "fail together. Leave {c} alone until the rest is in order.",
        "You were right, it was the second one. Summarise what I should tell the others.",
    ),
    (
        "Pretend that you run {name} and I am a new helper on my first day.",
        "Welcome! Hang up your coat. You start with {a}; Mira shows you where things are. After "
        "lunch we do {b} together. Do not touch {c} yet, that is for the second week.",
        "Who is Mira, and what does she do when I am not here?",
        "She has been here for eleven years and knows every corner. When nobody needs help she "
        "writes the log, and she writes it so well that we read it aloud at the summer party.",
        "Show me an example: her log of a day on which {c} went wrong.",
    ),
)
"""Scripted turns, the user's first. They begin differently, so that no two share a prefix."""


def _talks() -> Iterator[Prompt]:
    for turns, topic in product(_TALKS, everyday()):
        yield Prompt.after(*(_about(topic, turn) for turn in turns))


def _about(topic: Topic, turn: str) -> str:
    first, second, third = topic.parts
    said = turn.format(name=topic.name, a=first, b=second, c=third)
    return said[0].upper() + said[1:]


PROMPT_SETS: Mapping[str, Callable[[], Iterable[Prompt]]] = {
    "reasoning": lambda: _crossed(_REASONING, SOFTWARE),
    "code": lambda: _crossed(_CODE, SOFTWARE),
    "chat": lambda: _crossed(_CHAT, [topic.name for topic in everyday()]),
    "edit": edits,
    "quote": quotes,
    "conversation": _talks,
}
"""Name of a built-in prompt set to what makes its prompts, the same ones each time."""


@cache
def built_in(name: str) -> PromptSet:
    """Return a built-in set. Raises KeyError."""
    return PromptSet.of(PROMPT_SETS[name]())
