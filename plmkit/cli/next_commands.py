"""What to do with a trained model: commands that suit its kind and the files at hand."""

import shlex
from pathlib import Path

from plmkit.config.machine import Machine
from plmkit.data.reading.files import format_of
from plmkit.language import tr
from plmkit.preparation.triples import reads_triples
from plmkit.training.run_record import FinetuneRecord, PretrainRecord

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


def commands_after_pretraining(out: Path, record: PretrainRecord) -> list[str]:
    """Commands that show what a pretrained model does, those of its kind first."""
    architecture, found = record.recipe.architecture, []
    blank = f'plm fill {out} "{tr("a text with a [MASK] in it")}"'
    if reads_triples(record.recipe):
        found.append(f"plm evaluate {out} test.tsv")
        found.append(f'plm complete {out} --head "{tr("a name")}" --relation "{tr("a relation")}"')
    if architecture.reads_images and not architecture.describes_images:
        seen = tr("photo.jpg") if architecture.image_pixels is not None else "photo.npy"
        found.append(f'plm search {out} {record.corpora[0]} "{tr("a text")}"{table_options(record.run)}')
        found.append(" ".join([blank, "--image", seen]))
    elif architecture.translates:
        found.append(f'plm translate {out} "{tr("a text to translate")}"')
    elif architecture.describes_images:
        return [*found, f"plm caption {out} {tr('photo.jpg')} --attention regions.png"]
    elif architecture.generates != "no":
        found.append(f'plm generate {out} "{tr("how a text begins")}"')
    elif architecture.reads_characters:
        found.append(f'plm embed {out} "{tr("a text")}" --level token')
    else:
        found.append(blank)
    found.append(f"plm finetune {out} --task classify --train train.tsv --dev dev.tsv --out {out}-task")
    return [*found, f"tensorboard --logdir {out}"]


def table_options(machine: Machine) -> str:
    """How a table of images and captions was read, for another command on it."""
    options = {
        "--text": machine.column, "--image": machine.image_column, "--images": machine.image_folder,
        "--features": machine.features,
    }  # fmt: skip
    return "".join(f" {option} {value}" for option, value in options.items() if value is not None)
