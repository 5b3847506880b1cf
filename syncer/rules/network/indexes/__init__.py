"""Indexes of one tenant's super objects that network rules read."""
