"""`python -m plmkit` is `plm`; so is `torchrun --nproc-per-node N -m plmkit`."""

from plmkit.cli import main

if __name__ == "__main__":
    main()
