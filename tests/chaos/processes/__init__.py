"""Drills on real API servers: the syncer as a process of its own is broken on purpose, under churn.

A super cluster and tenants are started once. Then, fault after fault, tenants make, change and
delete, something breaks, and when everything is calm both sides are compared by someone who asks
the servers and never the syncer. The scripts are those of `tests.chaos.scripts`, as far
as real servers can play them. `python -m tests.chaos.processes --help`.
"""
