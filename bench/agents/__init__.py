"""Measurements of the node agent: streams, commands, downloads and its memory."""
