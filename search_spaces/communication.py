"""Axes and rules of communication on one PCIe host, shared by the spaces that sweep them."""

from sweeps import Choice, Rule, ref, switch

COMMUNICATION_AXES = [
    switch("disable_custom_all_reduce"),
    Choice("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", [None, "1"]),
    Choice("NCCL_PROTO", [None, "LL", "Simple"]),
    Choice("NCCL_ALGO", [None, "Ring", "Tree"]),
    Choice("NCCL_P2P_LEVEL", [None, "PXB", "PHB", "SYS"]),
    Choice("NCCL_MIN_NCHANNELS", [None, 2, 4, 8]),
    Choice("NCCL_MAX_NCHANNELS", [None, 2, 4, 8]),
]

COMMUNICATION_RULES = [
    Rule(
        ref("NCCL_MIN_NCHANNELS") <= ref("NCCL_MAX_NCHANNELS"),
        "NCCL lets the minimum of channels win over a smaller maximum",
    ),
]
