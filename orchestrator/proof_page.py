"""What `verify` and `compare` print."""

import sys
from collections.abc import Iterator
from pathlib import Path

from orchestrator.proofs import AS_EXPORTED, Proof, percent
from orchestrator.proving import Proving
from sweeps.equivalence import Likeness
from sweeps.phrases import figure, sentence


def print_plan(proving: Proving) -> None:
    """Say before the first start what is not as it was, and what so many starts can show."""
    word = "EMULATED: " if proving.emulated else ""
    for line in (*proving.notes, proving.forecast):
        sys.stderr.write(f"{word}{line}\n")


def print_proof(proof: Proof, state_dir: Path) -> None:
    """Print the answer first, then what it rests on."""
    for line in lines(proof, state_dir):
        sys.stdout.write(f"{line}\n")


def lines(proof: Proof, state_dir: Path) -> Iterator[str]:
    """Yield what is printed."""
    word = "EMULATED: " if proof.emulated else ""
    yield word + answer(proof)
    for side, rates in proof.rates.items():
        shown = ", ".join(figure(rate) for rate in rates) or "none"
        yield f"  {side}: {shown} {proof.unit}"
    for failure in proof.failures:
        yield f"  {failure}"
    made = proof.comparison
    if made is not None:
        low, high = made.interval
        yield (
            f"  {proof.above} / {proof.below}: {made.ratio:.3f} (95 % interval {low:.3f} to"
            f" {high:.3f}); starts differ by {percent(made.launch_fraction)}"
        )
    for note in proof.notes:
        yield f"  {sentence(note)}"
    folder = "" if state_dir == Path(".sweeps") else f" --state-dir {state_dir}"
    yield f"next   python -m orchestrator trials --sweep {proof.sweep_id}{folder}"


def answer(proof: Proof) -> str:
    """Say in one line what came out."""
    zone = percent(proof.zone_fraction)
    if proof.interrupted:
        return "interrupted: nothing is decided"
    if proof.comparison is None or proof.likeness is None:
        return "no answer: one of the sides was never measured"
    is_file = proof.below == AS_EXPORTED
    if proof.likeness is Likeness.ALIKE:
        return f"{'it holds' if is_file else 'alike'} within {zone}"
    if proof.likeness is Likeness.UNDECIDED:
        more = (
            f"about {proof.needed} starts of each side would tell"
            if proof.needed
            else "no number of starts would tell: widen the zone with --within"
        )
        return f"undecided whether {'it holds' if is_file else 'they are alike'} in {zone}: {more}"
    if proof.blamed:
        return f"{'it does not hold' if is_file else 'they differ'}: {proof.blamed}"
    ratio = proof.comparison.ratio
    pace = f"{percent(abs(ratio - 1))} {'lower' if ratio < 1 else 'higher'}"
    if is_file:
        return f"it does not hold within {zone}: {proof.above} is {pace} than exported"
    return f"they differ by more than {zone}: {proof.above} is {pace} than {proof.below}"
