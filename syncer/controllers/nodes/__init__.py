"""Reconcilers of virtual nodes and their Leases."""
