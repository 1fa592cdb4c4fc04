"""What all tests share."""

from hypothesis import settings

# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("shared", deadline=None, max_examples=50)
settings.load_profile("shared")
