"""Phases about the rotation of a tenant's authorities, and the census of its old credentials."""
