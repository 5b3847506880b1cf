"""Drivers of nodes that tests start."""
