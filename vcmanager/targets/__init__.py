"""Checks of target clusters, and the objects that each target needs."""
