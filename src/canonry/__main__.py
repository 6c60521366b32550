"""`python -m canonry`."""

from canonry.cli.main import main

main()
