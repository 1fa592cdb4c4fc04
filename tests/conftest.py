"""What all tests share."""

import os

from hypothesis import settings

from tests.infra.ssh.fixtures import lan_of_session

__all__ = ["lan_of_session"]

# As the command line does, before NumPy is loaded by what is tested.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("shared", deadline=None, max_examples=50)
settings.load_profile("shared")
