"""Other machines over SSH. Only this package imports paramiko."""
