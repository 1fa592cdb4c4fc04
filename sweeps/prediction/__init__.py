"""What is computed before it is measured: step time fitted, accept length given, the whole space."""
