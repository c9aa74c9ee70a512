"""The reports of `plm evaluate` on a fine-tuned model: printed, and drawn as pages."""

from pathlib import Path
from typing import TYPE_CHECKING

from plmkit.cli.options import print_json
from plmkit.errors import SettingError
from plmkit.language import tr

if TYPE_CHECKING:
    from plmkit.data.reading.columns import Columns
    from plmkit.inference.model import Model
    from plmkit.terminal.screen import Screen


def task_reports(
    loaded: "Model", file: Path, columns: "Columns", task: str | None, out: Path | None, *, as_json: bool,
    reporting: "Screen",
) -> None:  # fmt: skip
    """Of the named task, or of all that can read the file."""
    from plmkit.cli import show_report
    from plmkit.insight.report_page import report_page
    from plmkit.storage.files import write_text
    from plmkit.tasks.use import evaluate_file

    check_page(out)
    alone = task is not None or len(loaded.tasks) == 1
    found = evaluate_file(loaded, file, reporting, columns, task)
    for remark in dict.fromkeys(text for one in found.values() for _, text in one.unread.remarks()):
        reporting.say(f"! {remark}")
    if as_json:
        made = {name: one.report.as_json() for name, one in found.items()}
        print_json(*made.values()) if alone else print_json({"tasks": made})
    else:
        for number, (name, one) in enumerate(found.items()):
            if not alone:
                show_report.title(name, loaded.tasks[name].kind, first=number == 0)
            show_report.report(one.report, file)
    for name, one in found.items() if out else ():
        assert out
        place = out if len(found) == 1 else out.with_stem(f"{out.stem}-{name}")
        model = str(loaded.folder) if alone else tr("{folder}, task {task}", folder=loaded.folder, task=name)
        write_text(place, report_page(one.report, model=model, file=file.name))
        reporting.say(tr("The report is drawn in {out}.", out=place))


def check_page(out: Path | None) -> None:
    if out and out.suffix != ".html":
        raise SettingError(
            tr(
                "--out {out}: the report of a fine-tuned model is drawn as a page, .html. For a table of its answers, "
                "use plm predict.",
                out=out,
            )
        )
