"""A real SGLang server without a GPU: how it is built, and how it is started.

build.py       the command that makes the environment and the model
steps.py       what a build runs, as values
stamp.py       which directories hold a whole build
layout.py      where the parts of a built environment lie
launch.py      flags and variables of the two arms, plain and NGRAM
tiny_model.py, warm_up.py, ngram_trees.py   run inside the environment
stand_ins/     packages that have no CPU build, copied into the environment
"""
