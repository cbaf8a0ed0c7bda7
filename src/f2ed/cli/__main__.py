"""Run `f2ed` as `python -m f2ed.cli`."""

from f2ed.cli import main

main()
