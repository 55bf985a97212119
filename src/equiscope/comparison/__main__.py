"""`python -m equiscope.comparison FOLDER RUN`: one run of a comparison, in a process of its own."""

import sys

from equiscope.comparison.job import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
