"""Passes of a load client against the fake server, with terms that most tests share."""

from collections.abc import Callable

from orchestrator.load_client.arrivals import Arrivals
from orchestrator.load_client.seam import LoadClient, PassProgress, Sampling
from sweeps.prompts import prompts_of
from sweeps.records import PassRecord
from tests.fakes.stream_server import Script, StreamServer

LONG = Script(chunks=(1,) + (2,) * 5000, gap_s=0.004)


def run(  # noqa: PLR0913 - the terms of a pass
    client: LoadClient,
    server: StreamServer | str,
    dialect: str,
    *,
    prompts: int = 1,
    max_tokens: int = 100_000,
    arrivals: Arrivals | None = None,
    concurrency: int = 1,
    deadline_s: float = 6_000.0,
    silence_s: float = 3_000.0,
    on_progress: Callable[[PassProgress], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> PassRecord:
    return client.run_pass(
        server if isinstance(server, str) else server.url,
        prompts_of(f"prompt {i}" for i in range(prompts)),
        Sampling(max_tokens=max_tokens),
        concurrency=concurrency,
        arrivals=arrivals,
        dialect=dialect,
        deadline_s=deadline_s,
        silence_s=silence_s,
        on_progress=on_progress,
        should_stop=should_stop,
    )
