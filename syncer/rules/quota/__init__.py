"""Quota of a tenant: usage of objects, and the objects that show and enforce it."""
