"""Configuration of the documentation site, and the versions of its generator."""
