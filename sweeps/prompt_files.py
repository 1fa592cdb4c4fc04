"""Reads users' own prompts from a file, and names each line that cannot be one."""

from collections import Counter
from functools import lru_cache
from pathlib import Path

from sweeps.json_lines import EntryKind, read_entries
from sweeps.problems import BadInputError, Problem
from sweeps.prompt_entries import FORMS, is_turns, read_prompt
from sweeps.prompts import PromptSet

FIELD = "workload.prompts"
PROMPTS = EntryKind(FIELD, FORMS, is_turns)


def read_prompts(path: Path) -> PromptSet:
    """Read a JSON list, or JSON Lines, of prompts; packed by gzip or not.

    What an entry may be says `sweeps.prompt_entries`. What an assistant says last is not sent: it
    is what the model is asked for. Of equal prompts the first stays. A ShareGPT conversation in
    which nobody asks anything is passed over.

    Raises: BadInputError, which names each line or entry, and what is wrong with it.
    """
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return _read(path.absolute())
    return _read(path.absolute(), stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=4)
def _read(path: Path, *_state: int) -> PromptSet:
    """Read a file in the state that it is in."""
    found = read_entries(path, PROMPTS, read_prompt)
    prompts = [read.prompt for read in found if read.prompt]
    if not prompts:
        problem = Problem(FIELD, str(path), "it holds no prompt", FORMS)
        raise BadInputError(str(path), [problem])
    unsent = Counter(name for read in found for name in read.unsent)
    names = tuple(name for name, _ in unsent.most_common())
    return PromptSet.of(prompts, len(found) - len(prompts), names)
