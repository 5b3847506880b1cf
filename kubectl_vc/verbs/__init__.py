"""Verbs of `kubectl vc`, one module each."""
