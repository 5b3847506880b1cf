"""Reconcilers: from a key to writes in either cluster, one module per kind."""
