"""Typer's own words, around help texts and in errors, in the reader's language."""

import re
from typing import Any

from plmkit.language import tr, translated

HELP = (  # of typer's own options
    "Show this message and exit.",
    "Install completion for the current shell.",
    "Show completion for the current shell, to copy it or customize the installation.",
)
ERRORS = (  # of typer, click and pydantic, the more specific first; a value may be such a message too
    "No such command {name}. Did you mean {others}?",
    "No such command {name}.",
    "No such option: {option} (Possible options: {others})",
    "No such option: {option} Did you mean {others}?",
    "No such option: {option}",
    "Missing command.",
    "Missing argument {name}.",
    "Missing option {name}.",
    "Option {option} requires an argument.",
    "Option {option} does not take a value.",
    "Got unexpected extra argument(s) ({arguments})",
    "Got unexpected extra argument ({arguments})",
    "Got unexpected extra arguments ({arguments})",
    "Invalid value for {name}: {problem}",
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid integer, got a number with a fractional part",
    "Input should be a valid number, unable to parse string as a number",
    "Input should be greater than or equal to {number}",
    "Input should be less than or equal to {number}",
    "{value} is not a valid integer.",
    "{value} is not a valid float.",
    "{value} is not in the range {range}.",
)
HAN, OPENING, CLOSING = "\u3400-\u9fff", "（“", "，。：；？！、）”…"
WORD = re.compile(  # between which lines break: a Chinese character or a Latin word, with its punctuation
    rf"\s*(?:[{OPENING}]*(?:[{HAN}]|[^\s{HAN}{OPENING}{CLOSING}]+)[{CLOSING}]*|[{OPENING}{CLOSING}]+)\s*"
)


def error_in_language(message: str) -> str:
    """An error of the parser's as the catalogue has it; unchanged if that does not know it."""
    for template in ERRORS:
        if found := re.fullmatch(pattern_of(template), message, re.DOTALL):
            values = {name: error_in_language(value) for name, value in found.groupdict().items()}
            return translated(template).format(**values)
    return message


def pattern_of(template: str) -> str:
    return re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(template))


def translate_help() -> None:
    """Usage, titles of panels and help of typer's own options, in tables that fold text without spaces."""
    from rich import _wrap
    from rich.columns import Columns
    from rich.table import Table
    from rich.text import Text
    from typer import core, rich_utils

    class FoldingTable(Table):  # the default cuts off what has no space to break at, and Chinese has none
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*cells, **options)
            for column in self.columns:
                column.overflow = "fold"

    _wrap.re_word = WORD

    plain, usage = rich_utils._make_rich_text, core.TyperCommand.get_usage

    def in_language(*, text: str, **options: Any) -> Any:  # help of typer's own options; ours is translated already
        return plain(text=translated(text), **options)

    def in_one_line(items: list[Any]) -> Any:
        return Text(" ").join(items) if all(isinstance(item, Text) for item in items) else Columns(items)

    def usage_in_language(command: Any, context: Any) -> str:
        words = {"Usage: ": tr("Usage: "), "[OPTIONS]": tr("[OPTIONS]"), "COMMAND [ARGS]": tr("COMMAND [ARGS]")}
        return re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], usage(command, context))

    core.TyperCommand.get_usage = core.TyperGroup.get_usage = usage_in_language  # type: ignore[method-assign, assignment]
    rich_utils._make_rich_text = in_language
    rich_utils.Table = FoldingTable  # type: ignore[misc]
    rich_utils.Columns = in_one_line  # type: ignore[misc, assignment]
    rich_utils.ARGUMENTS_PANEL_TITLE = tr("Arguments")
    rich_utils.OPTIONS_PANEL_TITLE = tr("Options")
    rich_utils.COMMANDS_PANEL_TITLE = tr("Commands")
    rich_utils.REQUIRED_LONG_STRING = tr("[required]")
    rich_utils.DEFAULT_STRING = tr("[default: {{}}]")
