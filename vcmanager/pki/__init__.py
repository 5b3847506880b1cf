"""Certificates of tenants: which there are, how they are made, and whether they still do."""
