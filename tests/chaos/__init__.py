"""Faults of servers, networks, processes and stores, and the state that the syncer must reach then.

`faults`, `scripts`, `edits`, `oracles` and `mutants` are shared. Two drivers run them: `memory` has
the whole syncer in virtual time on API servers in memory, and `processes` has it as a process with
real API servers and etcd. No driver imports the other one.
"""
