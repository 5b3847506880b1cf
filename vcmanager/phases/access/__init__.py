"""Phases for the access to a tenant's API."""
