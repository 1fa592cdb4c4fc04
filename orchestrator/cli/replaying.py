"""The command that replays n-gram drafts over recorded text."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import AsJson, bad_input_exits, finite, print_json

RECORDED = "A recording of a plain decode trial, or JSON lines of completions: ids or text."


def replay(  # noqa: PLR0913 - each is an option
    source: Annotated[Path, typer.Argument(help=RECORDED)],
    draft_tokens: Annotated[str, typer.Option(help="Such as 2-6,8.")] = "2-4,6,8,12,16,24,32",
    breadth: Annotated[str, typer.Option(help="Largest breadths.")] = "10",
    depth: Annotated[str, typer.Option(help="Match depths, by the version's name.")] = "",
    match: Annotated[str, typer.Option(help="BFS, PROB or both.")] = "BFS",
    concurrency: Annotated[int, typer.Option(min=1, help="Streams at a time.")] = 1,
    version: Annotated[str, typer.Option(help="Of SGLang; the newest that is known if none.")] = "",
    plain_tok_s: Annotated[
        float | None,
        typer.Option(min=0.001, callback=finite, help="Plain decode's tok/s: limits in ms."),
    ] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="The model's tokenizer.json.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="An external corpus, as JSON lines.")] = None,
    corpus_budget: Annotated[int, typer.Option(min=0, help="Drafts kept for the corpus.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say what n-gram drafts would be accepted on recorded text, without a server."""
    from infra.sglang.flags import NEWEST
    from orchestrator.replay_page import print_replay
    from orchestrator.replaying import (
        Asked,
        replay_file,
        report_data,
        tokenizer_of,
        whole_numbers,
    )

    with bad_input_exits():
        asked = Asked(
            whole_numbers("--draft-tokens", draft_tokens),
            whole_numbers("--breadth", breadth),
            whole_numbers("--depth", depth) if depth else (None,),
            [name.strip().upper() for name in match.split(",")],
            version or NEWEST,
            concurrency,
            corpus_budget,
        )
        tokenize = tokenizer_of(tokenizer) if tokenizer else None
        report = replay_file(source, asked, tokenize, corpus)
    if as_json:
        print_json(report_data(report))
    else:
        print_replay(report, plain_tok_s)
