"""Connections to the super cluster: flags, lookup, watch and wait."""
