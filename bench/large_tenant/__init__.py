"""Measurement of one tenant that is too large beside a neighbour, with real API servers."""
