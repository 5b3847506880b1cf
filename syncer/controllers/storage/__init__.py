"""Reconcilers of claims and volumes."""
