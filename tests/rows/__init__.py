"""Rows of reliability, and the tests that show them.

`rows.yaml` says what is asked, in our words; a test that shows a row carries its id in its
docstring. `python -m tests.rows` writes the table into `docs/reliability.md`.
"""
