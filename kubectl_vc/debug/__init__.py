"""Archives for bug reports, without secrets."""
