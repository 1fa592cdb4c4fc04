"""Times all-reduces under one setting of communication, in a program that can be killed."""
