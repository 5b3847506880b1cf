"""Phases of a reconcile. Each one observes, decides and acts, and can be repeated."""
