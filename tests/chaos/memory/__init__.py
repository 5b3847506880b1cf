"""A machine that looks for what we missed: the syncer, whole and unchanged, in a world made of a
seed.

The API servers are `tests.support.memapi`, time is virtual, and everything that happens (edits,
kubelets, crashes, faults of networks, restores) is a script of plain steps. One seed is one run, to
the last byte of its trace. A script that fails is cut down to the steps that it needs. What must
hold while it runs and when it rests is in `judge`. `python -m tests.chaos.memory --help`.
"""
