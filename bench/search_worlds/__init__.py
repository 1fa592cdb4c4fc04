"""Hosts on which thousands of sweeps run in minutes: what a trial would measure, drawn at once."""
