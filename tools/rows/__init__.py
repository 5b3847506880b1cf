"""Rows of what must hold, and the tests that show them: reliability, and pods in other clusters.

`rows.yaml` and `offload.yaml` say what is asked, in our words; a test that shows a row carries its
id in its docstring. `python -m tools.rows` writes the tables into `docs/reliability.md` and
`docs/offload.md`; with `--results FILE`, the JUnit report of a run, what became of the tests too.
`python -m tools.rows.calls` writes which calls of which kubectl worked on which kubelet.
"""
