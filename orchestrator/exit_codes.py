"""With what the command line exits, for scripts."""

DONE, BAD_INPUT, NO_TRIAL, INTERRUPTED = 0, 2, 3, 130
