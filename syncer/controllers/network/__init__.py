"""Reconcilers of Services and their addresses."""
