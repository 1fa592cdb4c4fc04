"""The planner of a sweep: which configuration next and why, as a function of what was measured."""
