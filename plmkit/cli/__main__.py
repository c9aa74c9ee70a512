from plmkit.cli import main

main()
