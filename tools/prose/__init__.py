"""Measurement of English prose in pages, docstrings, comments, messages and chart texts."""
