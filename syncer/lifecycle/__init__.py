"""Lifecycle of tenants and targets: start, restart and end of their connections."""
