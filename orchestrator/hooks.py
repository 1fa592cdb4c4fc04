"""Calls those who are told what happens, and keeps their errors from the sweep."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")

logger = logging.getLogger(__name__)


class Hooks:
    """Contains and counts: a hook that fails is logged the first time, and told at the end."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        """How often each hook failed, by its name."""

    def call(self, hook: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a hook; an exception of it goes no further."""
        try:
            hook(*args, **kwargs)
        except Exception:  # the one guard of all hooks
            name = getattr(hook, "__qualname__", type(hook).__name__)
            self.faults[name] += 1
            if self.faults[name] == 1:
                logger.exception("the hook %s failed; the sweep goes on", name)
            else:
                logger.info("the hook %s failed again", name)
