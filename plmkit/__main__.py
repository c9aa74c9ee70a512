"""`python -m plmkit` is `plm`."""

from plmkit.cli import main

main()
