"""Measurements of pods' lives on real API servers: the load, the observer and the figures."""
