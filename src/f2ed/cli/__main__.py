"""`python -m f2ed.cli` is `f2ed`."""

from f2ed.cli import main

main()
