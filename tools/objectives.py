"""The tables of objectives in both READMEs: `python -m tools.objectives` writes them from the registry."""

import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

from plmkit.choices import OBJECTIVES
from plmkit.language import catalogue
from plmkit.objectives.contract import Objective

ROOT = Path(__file__).parent.parent
HEADERS = {"README.md": "| objective | reads | head | in short |", "README.zh.md": "| 训练目标 | 读取 | 头 | 简述 |"}


def head_of(objective: type[Objective]) -> str:
    """The class of the head that it builds."""
    head = signature(objective.build).return_annotation
    return head.__name__ if isinstance(head, type) else str(head).strip("'\"")


def table(readme: str) -> Iterator[str]:
    yield HEADERS[readme]
    yield "|---|---|---|---|"
    for objective in OBJECTIVES:
        short = str(objective.__doc__)
        if readme == "README.zh.md":
            short = in_chinese(catalogue("zh")[short])
        yield f"| `{objective.name}` | {', '.join(sorted(objective.reads))} | `{head_of(objective)}` | {short} |"


def in_chinese(text: str) -> str:
    """（Devlin et al., 2018, 3.1） becomes （Devlin 等，2018，3.1）."""
    return re.sub(r"（[^）]*）", lambda found: found[0].replace(" et al., ", " 等，").replace(", ", "，"), text)


def with_table(text: str, readme: str) -> str:
    start = text.index(HEADERS[readme])
    end = text.index("\n\n", start)
    return text[:start] + "\n".join(table(readme)) + text[end:]


def main() -> None:
    for readme in HEADERS:
        path = ROOT / readme
        path.write_text(with_table(path.read_text(encoding="utf-8"), readme), encoding="utf-8")


if __name__ == "__main__":
    main()
