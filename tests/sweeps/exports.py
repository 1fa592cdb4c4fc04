"""A recommendation to export, on an emulated or a real host."""

from dataclasses import replace

from sweeps.exporters import Launch, Recommendation
from sweeps.exporters.recommendation import Chosen, Origin, recommend
from sweeps.hosts import EngineName, HostSpec
from sweeps.quality import Verdict
from sweeps.reporting.answer import answer_of
from sweeps.sweep import Budget, Objective
from sweeps.workloads import Workload
from tests.sweeps.makers import ngram, plain, result, with_argv

EMULATED = ("/venv/bin/python", "-m", "infra.emulated")
REAL = ("/other venv/bin/python", "-m", "sglang.launch_server")
OPTIONS = ("--model-path", "/models/it's a model", "--trust-remote-code", "--host", "127.0.0.1",
           "--port", "31007", "--tp-size", "8", "--mem-fraction-static", "0.88",
           "--disable-cuda-graph")  # fmt: skip
KEPT = (*OPTIONS[:3], *OPTIONS[7:])


def recommended(*, emulated: bool = False) -> Recommendation:
    """Recommend the n-gram variant of two that were measured."""
    program = EMULATED if emulated else REAL
    winner = with_argv(result(1, ngram(4), 120), *program, *OPTIONS,
                       NCCL_PROTO="LL", EMULATED_TRUTH="M")  # fmt: skip
    results = [
        replace(result(0, plain(), 80, purpose="baseline"), emulated=emulated),
        replace(winner, emulated=emulated, fingerprint="0f1e2d3c4b5a", quality=Verdict.SAME,
                requested={**ngram(4), "tp_size": 8}),
    ]  # fmt: skip
    host = HostSpec("node", engine=EngineName.SGLANG, python=REAL[0], version="0.5.23")
    answer = answer_of(results, Objective())
    assert answer is not None
    what = recommend(Chosen.by(answer), results, "decode_tok_s", "tok/s")
    budget = {"start_s": Budget().start_s, "stop_grace_s": Budget().stop_grace_s}
    origin = Origin(Workload(concurrencies=(4,)).as_data(), host.as_data(), budget)
    return replace(what, origin=origin, versions=("0.5.3", "0.5.23"), warnings=("it is a test",),
                   image="registry/sglang:v0.5.23")  # fmt: skip


def of_launch(launch: Launch) -> Recommendation:
    """Recommend to start just that."""
    return replace(recommended(), launch=launch)
