"""How long a test waits for what must come."""

GIVE_UP_S = 240.0
"""Wall seconds after which a wait fails by name; pytest ends the test only later.

It tells what hangs from what is slow: many times what anything takes on a machine that does other
things as well. What a test claims of time is said by counts, by ratios or by a clock of its own.
"""

SGLANG_S = 2 * GIVE_UP_S
"""The same for a start of the real SGLang, which takes half a minute of a core."""
