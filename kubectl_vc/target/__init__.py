"""Verbs of `kubectl vc target`, one module each."""
