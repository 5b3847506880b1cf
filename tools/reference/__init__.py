"""Generators of the reference pages in `docs/reference`, from the code that they describe."""
