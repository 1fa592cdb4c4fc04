"""What the fault bench is made of: sweeps under fire, what is thrown at them, and the audit."""
