"""Watches that wake the reconcilers."""
