"""Diagnosis of objects and installations: collected facts, and tables of the causes that hold."""
