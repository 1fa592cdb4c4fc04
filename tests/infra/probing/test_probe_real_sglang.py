"""The probe of a real SGLang on a CPU: its release, and every flag that the table has for it."""

from pathlib import Path

import pytest

from infra.probing.probe import probe_host
from infra.sglang.flags import FLAGS
from infra.sglang_cpu.layout import DEFAULT_ENV, EnvLayout
from search_spaces.cpu_tiny import sweep
from sweeps.hosts import HostSpec

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


def test_a_real_sglang_lists_what_the_table_has(tmp_path: Path) -> None:
    python = EnvLayout(ROOT / DEFAULT_ENV).python
    if not python.is_file():
        pytest.skip("no SGLang is built here")
    (host,) = sweep.hosts
    spec = HostSpec("cpu", host.engine, str(python), gpus=0, env=host.env)
    facts = probe_host(spec, tmp_path)
    assert facts.version == host.version
    known = {name for name, flag in FLAGS.items() if flag.exists_in(facts.version)}
    assert known - facts.accepted_flags == set()
    assert len(facts.accepted_flags) > len(known)
    again = probe_host(spec, tmp_path)
    assert again.software == facts.software
    assert again.fingerprint == facts.fingerprint
