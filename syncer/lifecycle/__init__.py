"""Lifecycle of tenants and targets: who is connected, and since when."""
