"""Limits per tenant and per peer."""
