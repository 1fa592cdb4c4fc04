"""What is computed before it is measured: step times fitted, rates of the whole space predicted."""
