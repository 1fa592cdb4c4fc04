"""The spaces of the bench: the settings that each holds, and what a server makes of them."""

from collections.abc import Iterator
from functools import cache
from itertools import product

from infra.emulated.settings import Settings, make_settings
from infra.engines import complete
from infra.sglang.flags import NEWEST, spelled
from sweeps.axes import is_environment
from sweeps.config import Config
from sweeps.search.roles import drafting_of, serving_of
from sweeps.space import Space
from sweeps.sweep import Sweep
from sweeps.values import Value


@cache
def sweep_named(name: str) -> Sweep:
    """Return the sweep of one of the project's own space files."""
    from importlib import import_module

    found = import_module(f"search_spaces.{name}").sweep
    assert isinstance(found, Sweep)
    return found


def settings_of(sweep: Sweep, draft: Config, serving: Config | None = None) -> Settings:
    """Resolve settings as the emulated server does."""
    chosen = _default_serving(sweep.name) if serving is None else serving
    return _settings_of(sweep.name, draft, chosen)


@cache
def _default_serving(space: str) -> Config:
    return serving_of(sweep_named(space).space.plain())


@cache
def _settings_of(space: str, draft: Config, serving: Config) -> Settings:
    full = complete(sweep_named(space).settings(Config.of({**serving, **draft})))
    values = {name: value for name, value in full.items() if value is not None}
    flags = {spelled(n, NEWEST): v for n, v in values.items() if not is_environment(n)}
    return make_settings(flags, {n: str(v) for n, v in values.items() if is_environment(n)}, NEWEST)


@cache
def _servings_of(space: str) -> tuple[Config, ...]:
    whole = sweep_named(space).space
    names = serving_of(whole.plain())
    axes = [axis for axis in whole.axes if axis.name in names]
    found = []
    for values in product(*(tuple(axis.grid or ()) for axis in axes)):
        config = Config.of(dict(zip((a.name for a in axes), values, strict=True)))
        if not whole.broken_rules({**whole.plain(), **config}):
            found.append(config)
    return tuple(found)


def servings_of(sweep: Sweep) -> tuple[Config, ...]:
    """List the settings of communication."""
    return _servings_of(sweep.name)


def drafts_of(sweep: Sweep) -> tuple[Config, ...]:
    """List the drafting settings of a space, plain decode's among them."""
    return _drafts_of(sweep.name)


@cache
def _drafts_of(space: str) -> tuple[Config, ...]:
    whole = sweep_named(space).space
    return tuple(dict.fromkeys(_walk(whole, {}, 0)))


def _walk(space: Space, values: dict[str, Value], place: int) -> Iterator[Config]:
    axes = [a for a in space.ordered() if a.name in drafting_of(dict.fromkeys([a.name]))]
    if place == len(axes):
        if not space.broken_rules(values):
            yield Config.of(values)
        return
    axis = axes[place]
    held = all(_holds(values.get(n), v) for n, v in axis.when.items())
    for value in tuple(axis.grid or ()) if held else (None,):
        yield from _walk(space, {**values, axis.name: value} if held else values, place + 1)


def _holds(value: Value, wanted: object) -> bool:
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted
