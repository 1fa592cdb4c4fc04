"""A sweep as it may stand."""

from orchestrator.watching.sweep_status import EndedTrial, SweepStatus

TRIAL = EndedTrial(
    "s-0000", 0, "plain", "baseline", "measured", 33.6, 30.0, 37.0, False, None, 1.0, ""
)
SEEN = SweepStatus(
    sweep="s", name="s", status="running", emulated=True, hosts=("gpu1",), metric="decode_tok_s",
    unit="tok/s", created_at="", done=1, planned=3, outcomes={"measured": 1}, gpu_hours=1.0,
    left_s=60.0, leader=TRIAL, plain=TRIAL, spent_gpu_hours={}, saved_gpu_hours={}, running=(),
    ended=(TRIAL,), warnings=("WARNING of the driver",),
)  # fmt: skip
