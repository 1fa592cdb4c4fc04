"""Prompts whose answers copy from what they give: a file to edit, a report to quote from."""

import random
from collections.abc import Iterator

from sweeps.prompts import Prompt

PROMPTS = 640

_ENTITIES = (
    "Parcel", "Ticket", "Reading", "Booking", "Invoice", "Vessel", "Recipe", "Sensor", "Member",
    "Shipment", "Lesson", "Track", "Garden", "Machine", "Vehicle", "Patient", "Contract", "Player",
    "Package", "Station", "Meter", "Volume", "Room", "Route", "Batch",
)  # fmt: skip
_FIELDS = (
    ("weight_kg", "float", "0.0"), ("label", "str", '""'), ("priority", "int", "0"),
    ("owner", "str", '"nobody"'), ("length_cm", "float", "10.0"), ("is_open", "bool", "True"),
    ("created_at", "str", '""'), ("attempts", "int", "0"), ("price_cents", "int", "100"),
    ("colour", "str", '"grey"'), ("capacity", "int", "8"), ("distance_km", "float", "1.5"),
    ("tags", "str", '""'), ("shelf", "int", "1"), ("is_paid", "bool", "False"),
    ("temperature_c", "float", "20.0"), ("country", "str", '"FI"'), ("floor", "int", "0"),
    ("duration_min", "int", "30"), ("note", "str", '"-"'), ("score", "float", "0.5"),
    ("batch_number", "int", "17"), ("speed_kmh", "float", "50.0"), ("is_fragile", "bool", "False"),
)  # fmt: skip
_VERBS = ("put", "take", "accept", "register", "file", "keep", "store", "enter")
_EDITS = (
    "Rename the field `{field}` to `{field}_{suffix}` wherever it stands.",
    "Rename the class `{entity}` to `{entity}Record` wherever it stands.",
    "Give every method that has none a docstring of one line.",
    "Make every `find_` method return a tuple in place of a list, with its annotation.",
    "Add a method `count(self) -> int` to `{entity}Store`, after `{verb}`.",
    "Let `{verb}` raise `ValueError` where the item is there already.",
    "Add a field `{suffix}: int = 0` to `{entity}`, with a `find_by_{suffix}` like the others.",
    "Turn `self.items` into the private `self._items` wherever it stands.",
)
_SUFFIXES = ("raw", "old", "total", "seen", "limit", "shown", "level", "rank")

_FILE_HEAD = '''"""Keeps {what} in memory; version {version}."""

from dataclasses import dataclass


@dataclass
class {entity}:
    """One {what}."""

'''
_STORE_HEAD = '''

class {entity}Store:
    """All {what}s, in the order in which they came."""

    def __init__(self) -> None:
        self.items: list[{entity}] = []

    def {verb}(self, item: {entity}) -> None:
        self.items.append(item)
'''
_FIND = """
    def find_by_{name}(self, wanted: {kind}) -> list[{entity}]:
        return [item for item in self.items if item.{name} == wanted]
"""
_SUM = """
    def total_{name}(self) -> {kind}:
        return sum(item.{name} for item in self.items)
"""
_FIRST = """
    def first_{name}(self) -> {kind} | None:
        for item in self.items:
            if item.{name}:
                return item.{name}
        return None
"""


def edits() -> Iterator[Prompt]:
    """Yield files of source code, each with one change to make; no file comes twice."""
    for number in range(PROMPTS):
        rng = random.Random(number)
        entity, verb = rng.choice(_ENTITIES), rng.choice(_VERBS)
        fields = rng.sample(_FIELDS, rng.randint(4, 10))
        wish = _EDITS[number % len(_EDITS)].format(
            entity=entity, verb=verb, field=fields[-1][0], suffix=rng.choice(_SUFFIXES)
        )
        yield Prompt.of(
            f"```python\n{_file(number, entity, verb, fields)}```\n\n{wish} Leave everything else "
            "as it is, and give back the whole file."
        )


def _file(number: int, entity: str, verb: str, fields: list[tuple[str, str, str]]) -> str:
    what, version = entity.lower(), f"{1 + number // 100}.{number % 100}"
    out = _FILE_HEAD.format(what=what, version=version, entity=entity)
    out += "".join(f"    {name}: {kind} = {default}\n" for name, kind, default in fields)
    out += _STORE_HEAD.format(what=what, entity=entity, verb=verb)
    for name, kind, _ in fields:
        out += _FIND.format(name=name, kind=kind, entity=entity)
        out += (_SUM if kind in ("int", "float") else _FIRST).format(name=name, kind=kind)
    return out


_PEOPLE = (
    "Aino", "Boris", "Carmen", "Dmitri", "Edda", "Farid", "Greta", "Hugo", "Ines", "Jonas",
    "Katja", "Lars", "Mira", "Nadia", "Oskar", "Petra", "Quentin", "Rosa", "Sven", "Tilda",
)  # fmt: skip
_PLACES = (
    "the north gate", "the boat house", "Mill Lane", "the old dairy", "the upper lock",
    "Quarry Road", "the weighing hut", "the east barn", "Harbour Street", "the station yard",
    "the glass house", "the long bridge",
)  # fmt: skip
_GOODS = (
    "crates of apples", "rolls of cable", "sacks of cement", "boxes of books", "barrels of oil",
    "panes of glass", "bundles of willow", "cans of paint", "pallets of brick", "jars of honey",
    "reels of film", "bales of straw",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NEWS = (
    "On {day} {person} brought {n} {goods} to {place} and left {m} of them outside.",
    "{person} counted {n} {goods} at {place}, {m} more than on {day}.",
    "Nobody was at {place} when {person} came for the {goods} on {day} at {hour}.",
    "By {hour} on {day} all {n} {goods} had gone from {place}; {person} signed for them.",
    "{person} found {m} damaged {goods} near {place} and took photographs.",
    "The van to {place} was {m} minutes late on {day}, so {person} unloaded the {goods} alone.",
    "{person} asked {other} to keep {n} {goods} at {place} until {day}.",
    "At {place} the scales read {n} kilograms too little, and {other} sent {person} back.",
    "{other} paid {person} for {n} {goods} at {place} on {day}, in coins.",
    "After {hour} only {person} had a key to {place}, where {n} {goods} stood.",
)
_QUOTES = (
    "Quote, word for word and in order, all sentences that mention {place}.",
    "Write the report again with {person} replaced by Wilhelmina; list nothing and change nothing "
    "else, so that all other sentences stay as they are.",
    "Copy the report as a numbered list, one of its sentences to a line, word for word.",
    "Who was at {place}? Quote the sentences that say so, each with the name in front of it.",
    "Quote the sentences about {goods}, word for word, then all the other sentences.",
    "Give the report back as a table: the day or a dash, then the sentence as it stands. Leave out "
    "no sentences.",
    "When was {person} seen? Copy the sentences that tell it, in their order, word for word.",
    "Write the paragraph again with every number in words, and all else as it stands.",
)
_LENGTHS = (12, 12, 24, 80)
"""Sentences of a report: about 250, 500 and 1650 tokens."""


def quotes() -> Iterator[Prompt]:
    """Yield reports, each with a part of it to be quoted or copied; no report comes twice."""
    for number in range(PROMPTS):
        rng = random.Random(-1 - number)
        report = " ".join(_sentence(rng) for _ in range(rng.choice(_LENGTHS)))
        wish = _QUOTES[number % len(_QUOTES)].format(
            place=rng.choice([place for place in _PLACES if place in report]),
            person=rng.choice([person for person in _PEOPLE if person in report]),
            goods=rng.choice([goods for goods in _GOODS if goods in report]),
        )
        yield Prompt.of(f"Report {number + 1}. {report}\n\n{wish}")


def _sentence(rng: random.Random) -> str:
    draw = _Draw(rng.getrandbits(96))
    person = draw.below(len(_PEOPLE))
    other = person + 1 + draw.below(len(_PEOPLE) - 1)
    return _NEWS[draw.below(len(_NEWS))].format(
        person=_PEOPLE[person],
        other=_PEOPLE[other % len(_PEOPLE)],
        place=_PLACES[draw.below(len(_PLACES))],
        goods=_GOODS[draw.below(len(_GOODS))],
        day=_DAYS[draw.below(len(_DAYS))],
        hour=f"{6 + draw.below(14)}:{15 * draw.below(4):02}",
        n=21 + draw.below(70),
        m=2 + draw.below(19),
    )


class _Draw:
    """Many small numbers out of one large one; several times as fast as a draw for each."""

    __slots__ = ("_left",)

    def __init__(self, large: int) -> None:
        self._left = large

    def below(self, end: int) -> int:
        self._left, drawn = divmod(self._left, end)
        return drawn
