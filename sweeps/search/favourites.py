"""What the model likes best: a draft of each algorithm, and a serving for drafts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sweeps.config import Config
from sweeps.search.beliefs import Outlook
from sweeps.search.brief import Canonical, same
from sweeps.search.feasibility import Feasibility

Drafts = Mapping[str, Config]
"""A draft of each algorithm."""
HOPED_DEVIATIONS = 2.0
"""Standard deviations that an algorithm is given credit for when it is chosen to be tried first:
one that nothing is known of may surprise, one that was replayed hardly."""


@dataclass(frozen=True, slots=True)
class Favourites:
    """By the expected rate; empty before anything is known."""

    outlook: Outlook | None
    feasibility: Feasibility
    named: Canonical = same
    """How the outlook names a serving."""

    def drafts(self, serving: Config) -> Drafts:
        """Return the best draft of each algorithm at a serving of the outlook; that which may turn
        out fastest first."""
        outlook, serving = self.outlook, self.named(serving)
        if outlook is None or serving not in outlook.servings:
            return {}
        column = outlook.servings.index(serving)
        mean = outlook.mean[:, column]
        hoped = mean + HOPED_DEVIATIONS * np.sqrt(outlook.variance[:, column])
        best: dict[str, int] = {}
        for row in np.argsort(-mean, kind="stable").tolist():
            draft = outlook.drafts[row]
            if draft.algorithm is not None and self.feasibility.odds(draft) > 0:
                best.setdefault(draft.algorithm, row)
        order = sorted(best.items(), key=lambda item: -hoped[item[1]])
        return {name: outlook.drafts[row] for name, row in order}

    @property
    def serving(self) -> Config | None:
        """The serving at which the best of all drafts is expected; None where nothing drafts."""
        outlook = self.outlook
        rows = [i for i, d in enumerate(outlook.drafts) if not d.is_plain] if outlook else []
        if outlook is None or not rows:
            return None
        return outlook.servings[int(outlook.mean[rows].max(axis=0).argmax())]
