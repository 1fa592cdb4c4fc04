"""Tests of the build of a real SGLang without a GPU."""
