"""Mutation testing of the parts whose mistakes nobody may make: what is deleted, whose it is, what
goes down.

mutmut changes one place at a time and runs the unit tests that come by there. What no test notices
is listed in `known.yaml` with its reason, or fails the run. `make mutants`.
"""
