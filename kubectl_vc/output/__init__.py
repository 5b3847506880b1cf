"""Output for people and programs: printers, errors, files, terminal."""
