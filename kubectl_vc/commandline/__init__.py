"""Command line with the habits of kubectl: declarations, parsing and help."""
