"""`python -m pytest tests/golden --record` writes what is compared with."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the losses of this tree to tests/golden/losses.json")
