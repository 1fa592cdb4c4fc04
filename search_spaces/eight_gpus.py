"""What every sweep on the founding host has in common: the model and the settings of all arms."""

from sweeps import Model

MODEL = Model("moonshotai/Kimi-K2.5", draft_path="AQ-MedAI/Kimi-K2-Instruct-eagle3")

FIXED = {
    "tp_size": 8,
    "mem_fraction_static": 0.88,
    # Speculation alone would set this to 48; plain decode must run with the same.
    "max_running_requests": 48,
    "trust_remote_code": True,
}
