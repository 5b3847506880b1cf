"""Measurement of layout, imports, names and prose of the packages."""
