"""Certificates of tenants: their inventory, their creation and their checks."""
