"""How a running pass stands: whole blocks of its rate, counted once each."""

from collections.abc import Sequence
from typing import Protocol

from orchestrator.load_client.seam import BLOCK_S, PassProgress
from orchestrator.load_client.tally import Tally
from sweeps.blocks import Curve, block_rates, length_s, live_windows
from sweeps.records import EndReason


class Flying(Protocol):
    """A request that has been sent, while it runs and after."""

    @property
    def tally(self) -> Tally:
        """Return what has come so far."""
        ...

    @property
    def end(self) -> EndReason | None:
        """Return why it ended; None while it runs."""
        ...

    def curve(self) -> Curve:
        """Return the tokens over time."""
        ...

    def chunk_curve(self) -> Curve:
        """Return the chunks with tokens over time."""
        ...


class ProgressMeter:
    """Turns the requests of a pass into its progress. Blocks that were told never change."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._decode_per_s: list[float] = []
        self._chunks_per_s: list[float] = []

    def progress(self, flights: Sequence[Flying], started_s: float, now_s: float) -> PassProgress:
        """Return the state of a pass that began at `started_s`, by the host's clock."""
        self._add_blocks(flights)
        return PassProgress(
            elapsed_s=now_s - started_s,
            output_tokens=sum(flight.tally.output_tokens for flight in flights),
            decode_blocks_per_s=tuple(self._decode_per_s),
            chunk_blocks_per_s=tuple(self._chunks_per_s),
            running_streams=sum(flight.end is None for flight in flights),
            finished_requests=sum(flight.end is EndReason.FINISHED for flight in flights),
            accept_length=_accept_length([flight.tally for flight in flights]),
            silent_requests=sum(flight.end is EndReason.SILENT for flight in flights),
            broken_requests=sum(flight.end is EndReason.BROKEN for flight in flights),
            quiet_s=_quiet_s(flights, now_s),
        )

    def _add_blocks(self, flights: Sequence[Flying]) -> None:
        curves = [flight.curve() for flight in flights]
        windows = live_windows(curves, self._concurrency)
        whole = int(length_s(windows) / BLOCK_S)
        new = range(len(self._decode_per_s), whole)
        if new:
            chunks = [flight.chunk_curve() for flight in flights]
            rates = block_rates(chunks, windows, BLOCK_S, new)
            self._decode_per_s += block_rates(curves, windows, BLOCK_S, new)
            self._chunks_per_s += [rate / self._concurrency for rate in rates]


def _quiet_s(flights: Sequence[Flying], now_s: float) -> float:
    """Return the time since the newest token, or since the oldest request that waits for one."""
    sent_s = [flight.curve().sent_s for flight in flights if flight.end is None]
    if not sent_s:
        return 0.0
    heard_s = [flight.tally.times_s[-1] for flight in flights if flight.tally.times_s]
    return max(0.0, now_s - max(min(sent_s), *heard_s, 0.0))


def _accept_length(tallies: Sequence[Tally]) -> float | None:
    """Return tokens per verify step of the requests that have told their steps."""
    told = [tally for tally in tallies if tally.verify_steps]
    steps = sum(tally.verify_steps or 0 for tally in told)
    return sum(tally.output_tokens - 1 for tally in told) / steps if steps else None
