"""What to do with a fine-tuned model: commands that suit its kind and the files at hand."""

import shlex
from pathlib import Path

from plmkit.data.reading.files import format_of
from plmkit.language import tr
from plmkit.training.run_record import FinetuneRecord

TABLES = (".tsv", ".csv", ".jsonl", ".parquet")  # that `plm predict` writes


def next_commands(out: Path, record: FinetuneRecord) -> list[str]:
    """Commands that can be run as they are, but for the names of files that are still to come."""
    model, kinds = shlex.quote(str(out)), {task["kind"] for task in record.tasks}
    files = [
        shlex.quote(path) for name, path in record.files.items() if path and name.split(".")[-1] in ("test", "dev")
    ]
    commands = [f"plm evaluate {model} {files[-1]}"] if len(record.tasks) == 1 and files else []
    if kinds == {"match"}:
        query = tr('"what you look for"')
        return [*commands, f"plm search {model} {tr('my_texts/')} {query}"]
    if kinds == {"qa"}:
        asked = tr('"Who built it?"')
        return [*commands, f"plm predict {model} --question {asked} report.txt"]
    new, answers = endings(record, kinds)
    return [*commands, f"plm predict {model} new{new} --out answers{answers}"]


def endings(record: FinetuneRecord, kinds: set[str]) -> tuple[str, str]:
    """Of a file like the one that the model was trained on, and of one with the answers for it."""
    train = next((Path(path) for name, path in record.files.items() if path and name.split(".")[-1] == "train"), None)
    ending = "" if train is None else train.name.lower().removesuffix(f".{format_of(train)[1]}")
    ending = Path(ending).suffix
    if ending in TABLES:
        return ending, ending
    if kinds <= {"tag", "slots"} and ending:
        return ending, ".conll" if kinds == {"tag"} else ".jsonl"
    return (ending, ".jsonl") if ending == ".json" else (".tsv", ".tsv")
