"""`python -m equiscope`: the command, where it is not on the path."""

from equiscope.cli import main

main()
