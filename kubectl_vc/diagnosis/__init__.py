"""Diagnosis of objects of a tenant: collected facts, and tables of the layers that hold."""
