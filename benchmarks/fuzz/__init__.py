"""Bad input for the command line and the readers; see `__main__`."""
