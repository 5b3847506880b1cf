"""Rows of what must hold, and the tests that show them: reliability, and pods in other clusters.

`rows.yaml` and `offload.yaml` have the requirements in our words. A test that shows a row has its
id in its docstring. `python -m tools.rows` writes the tables into `docs/reliability.md` and
`docs/offload.md`. It writes the findings of a review (`findings.yaml`) into
`docs/security-findings.md`. With `--results FILE`, the JUnit report of a run, it also writes the
results of the tests. `python -m tools.rows.calls` writes which calls of which kubectl worked on
which kubelet.
"""
