"""What cut links cost a sweep on another host, and how soon one sees it again.

A real sweep of an EMULATED host runs behind a real sshd in a network namespace. Its cable is cut
again and again, for 1 to 120 s each, most of them short; in half of the cuts the follower is killed
as well, and another one attaches. Then the sweep is stopped and fetched twice. Nothing may be lost:
every trial that ended on the host is here, none was cut off but the last, and the command was
started once. `heard_again` is the time from the mended cable to the next word, 0 for a cut that
nobody noticed; `attach` from the typed command to the state on the screen, with the CPU time of it
here beside it: on a busy machine only that tells much. `--quick` makes one short cut. Needs root.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from reporting.loads import LONG_ANSWER_TOKENS
from reporting.program import Figures, run, spread
from tests.infra.ssh.lan import lan
from tests.orchestrator.remote.sending import Desk, Typed, results, until

CUTS, LONGEST_S, ATTACHES = 20, 120.0, 5
QUICK_CUTS, QUICK_LONGEST_S, QUICK_ATTACHES = 1, 1.5, 1
SHORTEST_S = 1.0
PAUSE_S = 3.0
TOLD_WITHIN_S = 6.0
"""A lost connection is given up after 2 s here."""
ATTACH = ("attach", "--host", "gpu1")
SEEN = "EMULATED sweep"


@dataclass(frozen=True, slots=True)
class Cut:
    """One loss of the cable."""

    lasted_s: float
    killed: bool
    """Whether the follower was killed in it."""
    trials_before: int
    trials_after: int
    heard_again_s: float


def measure(quick: bool) -> Figures:
    """Cut, count and compare."""
    count = QUICK_CUTS if quick else CUTS
    longest_s = QUICK_LONGEST_S if quick else LONGEST_S
    with lan() as net, tempfile.TemporaryDirectory() as folder:
        desk = Desk.at(Path(folder), net, net["gpu1"].folder / "bench")
        space = _long_space(desk)
        code, text = desk.run("sweep", space, "--host", "gpu1", "--driver", "serial", "--detach")
        assert code == 0, text
        until(lambda: len(results(desk.place.state)) > 0, lambda: "no trial has ended")
        cuts = list(_cuts(desk, count, longest_s))
        attaches = [_attach(desk) for _ in range(QUICK_ATTACHES if quick else ATTACHES)]
        assert desk.run("stop", "--host", "gpu1")[0] == 0
        figures = _compared(desk)
    Console(stderr=True).print(_table(cuts))
    return {
        "cuts_count": len(cuts),
        **spread("cut", "s", [cut.lasted_s for cut in cuts]),
        "followers_killed_count": sum(cut.killed for cut in cuts),
        **spread("heard_again", "s", [cut.heard_again_s for cut in cuts]),
        **spread("attach", "s", [wall_s for wall_s, _ in attaches]),
        "attach_cpu_s": median(cpu_s for _, cpu_s in attaches),
        **figures,
    }


def _long_space(desk: Desk) -> str:
    """Write a space file whose sweep does not end before the cuts do."""
    path = desk.folder / desk.space("cut", trials=1000)
    text = path.read_text().replace("2, 6, NGRAM", "2, 64, NGRAM")
    path.write_text(text.replace("max_tokens=256", f"max_tokens={LONG_ANSWER_TOKENS}"))
    return path.name


def _cuts(desk: Desk, count: int, longest_s: float) -> Iterator[Cut]:
    luck = random.Random(20)
    with ExitStack() as following:
        typed = _attached(desk, following)
        for number in range(count):
            lasts_s = SHORTEST_S * (longest_s / SHORTEST_S) ** luck.random()
            killed = number % 2 == 0
            before, mark = len(results(desk.place.state)), len(typed.text)
            with _without_cable(desk):
                time.sleep(lasts_s / 2)
                if killed:
                    typed.process.kill()
                    following.close()
                time.sleep(lasts_s / 2)
            mended_s = time.monotonic()
            if killed:
                typed = _attached(desk, following)
            is_seen = killed or _comes_back(typed, mark)
            heard_s = time.monotonic() - mended_s if is_seen else 0.0
            after = len(results(desk.place.state))
            yield Cut(lasts_s, killed, before, after, heard_s)
            print(f"{number + 1}/{count}: {lasts_s:.1f} s", file=sys.stderr, flush=True)
            time.sleep(PAUSE_S)


def _attached(desk: Desk, following: ExitStack) -> Typed:
    typed = following.enter_context(desk.typed(*ATTACH))
    typed.wait_for(SEEN)
    return typed


def _comes_back(typed: Typed, mark: int) -> bool:
    """Wait until the follower says that it is back; False for a cut too short to be noticed."""
    end_s = time.monotonic() + TOLD_WITHIN_S
    while "is not heard" not in typed.text[mark:]:
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    until(lambda: "is heard again" in typed.text[mark:], lambda: typed.text)
    return True


@contextmanager
def _without_cable(desk: Desk) -> Iterator[None]:
    desk.node.cut()
    try:
        yield
    finally:
        desk.node.mend()


def _attach(desk: Desk) -> tuple[float, float]:
    """Return the wall seconds until the state stands there, and the CPU seconds of it here."""
    since_s = time.monotonic()
    with ExitStack() as following:
        typed = _attached(desk, following)
        wall_s = time.monotonic() - since_s
        used = psutil.Process(typed.process.pid).cpu_times()
    return wall_s, used.user + used.system


def _compared(desk: Desk) -> dict[str, float]:
    """Fetch twice, and compare what is here with what is there."""
    for name in ("first", "second"):
        since_s = time.monotonic()
        code, text = desk.run("fetch", "--host", "gpu1")
        assert code == 0, text
        print(f"{name} fetch, {time.monotonic() - since_s:.1f} s: {text}", file=sys.stderr)
    there, here = results(desk.place.state), results(desk.fetched)
    outcomes = [one["outcome"] for one in there.values()]
    return {
        "trials_count": len(there),
        "trials_measured_count": outcomes.count("measured"),
        "trials_cancelled_count": outcomes.count("cancelled"),
        "trials_lost_count": sum(here.get(number) != one for number, one in there.items()),
        "starts_count": len(desk.notes()),
        "second_fetch_files_count": 0 if "nothing is new" in text else 1,
    }


def _table(cuts: list[Cut]) -> Table:
    table = Table("cut", "follower", "trials before", "and after", "heard again after, s")
    for cut in cuts:
        word = "killed, attached anew" if cut.killed else "kept"
        counts = (str(cut.trials_before), str(cut.trials_after))
        table.add_row(f"{cut.lasted_s:.1f} s", word, *counts, f"{cut.heard_again_s:.1f}")
    return table


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    ended = figures["trials_measured_count"] + figures["trials_cancelled_count"]
    return {
        "the cable was cut": figures["cuts_count"] >= QUICK_CUTS,
        "no trial is lost on the way": figures["trials_lost_count"] == 0,
        "every trial was measured but the one that was stopped": ended == figures["trials_count"]
        and figures["trials_measured_count"] >= 1 >= figures["trials_cancelled_count"],
        "the command was started once": figures["starts_count"] == 1,
        "a second fetch brings nothing": figures["second_fetch_files_count"] == 0,
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
