"""Mutation testing of the most dangerous parts: deletion, ownership, and fields that are synced.

mutmut changes one place at a time and runs the unit tests that cover it. A change that no test
notices is listed in `known.yaml` with its reason, or fails the run. `make mutants`.
"""
