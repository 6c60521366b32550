"""`python -m canonry`."""

from canonry.surfaces.cli.main import main

main()
