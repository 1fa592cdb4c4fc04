"""What a tracker is told of a sweep's end, made from the state folder alone."""

from collections.abc import Mapping
from typing import Any

from orchestrator.state import State
from orchestrator.stories import sweep_story
from orchestrator.tracking.launch_files import launch_texts
from orchestrator.tracking.review import SweepReview, review_of
from sweeps.reporting.story import Story


def sweep_review(state: State, sweep_id: str) -> SweepReview:
    """Return what a sweep came to so far.

    Raises BadInputError for a spool of a newer version, and OSError for a plan that cannot be read.
    """
    card: Mapping[str, Any] = state.card(sweep_id)
    story = sweep_story(state, sweep_id)
    return review_of(story, card.get("plain", {}), _launch(state, sweep_id, story))


def _launch(state: State, sweep_id: str, story: Story) -> dict[str, str]:
    if story.answer is None:
        return {}
    result = next(result for result in story.results if result.trial == story.answer.trial)
    return launch_texts(result, state.trial_folder(sweep_id, result.number))
