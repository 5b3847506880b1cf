"""Indexes of one session over its caches, one module per subject."""
