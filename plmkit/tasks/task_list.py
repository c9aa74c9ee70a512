"""A file that names several tasks to fine-tune on together."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from plmkit.config.settings import as_text, assign, checked
from plmkit.data.reading.columns import OPTIONS, USUAL, Columns
from plmkit.data.reading.whole import check_file
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import comma, tr
from plmkit.tasks.contract import Task
from plmkit.tasks.mixing import Mixing
from plmkit.tasks.registry import KINDS, find_kind
from plmkit.tasks.settings import settle_kind
from plmkit.tasks.taking_up import TaskFiles

FILES = ("train", "dev", "test")
FEWEST = 2


@dataclass(frozen=True, kw_only=True)
class TaskList:
    """Tasks in the order of the file, and how their batches are mixed."""

    tasks: tuple[TaskFiles, ...]
    mixing: Mixing = Mixing()


def given_tasks(
    several: Path | None, task: str | Task | None, train: Path | None, dev: Path | None, test: Path | None,
    columns: Columns, sets: Sequence[str],
) -> tuple[TaskList, list[str]]:  # fmt: skip
    """One task or a file of several, and the settings that are left for all of them."""
    if several is not None:
        given = {"--task": task, "--train": train, "--dev": dev, "--test": test}
        given |= {OPTIONS[role]: name for role, name in columns.named.items()}
        if ignored := [option for option, value in given.items() if value is not None]:
            raise SettingError(
                tr(
                    "{option} has no effect with --tasks: the file says it for each task. Leave it out.",
                    option=ignored[0],
                )
            )
        return read_task_list(several), list(sets)
    if task is None:
        raise SettingError(
            tr(
                "--task is missing: one of {kinds}; or --tasks with a file that names several tasks.",
                kinds=comma().join(KINDS),
            )
        )
    if train is None:
        raise SettingError(tr("--train is missing: a file of labelled rows."))
    kind, left = settle_kind(find_kind(task)() if isinstance(task, str) else task, sets)
    return TaskList(tasks=(TaskFiles(task=kind, train=train, dev=dev, test=test, columns=columns),)), left


def read_task_list(path: Path) -> TaskList:
    """The tasks of a TOML file: one table per task, with its kind and its files."""
    text, found = parsed(path)
    tables = {name: value for name, value in found.items() if isinstance(value, dict)}
    plain = {name: value for name, value in found.items() if name not in tables}
    tasks = tuple(task_in(name, table, path, text) for name, table in tables.items())
    mixing = mixing_in(plain, path, text)
    if len(tasks) < FEWEST:
        raise InputError(
            tr(
                "{path} names {count} of the at least two tasks to train on together.\n"
                'Give each a table: [name], then kind = "classify", train = "train.tsv" and dev = "dev.tsv".',
                path=path,
                count=len(tasks),
            )
        )
    return TaskList(tasks=tasks, mixing=mixing)


def parsed(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of the file, and what it says."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return text, tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InputError(tr("{path} is not UTF-8 text.", path=path)) from error
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {reason}.", path=path, reason=error.strerror)) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            tr(
                "{path} is not valid TOML: {error}. Each task is one table, with a name of its own.",
                path=path,
                error=error,
            )
        ) from error


def mixing_in(given: Mapping[str, Any], path: Path, text: str) -> Mixing:
    known = {field.name for field in fields(Mixing)}
    check_keys(given, known, path, text, None)
    mixing = Mixing()
    for name, value in given.items():
        with placed(tr("{path}, line {line}", path=path, line=line_of(text, name, None))):
            mixing = assign(mixing, [name], as_text(value), name)
    with placed(str(path)):
        made: Mixing = checked(mixing)
    return made


def task_in(name: str, table: Mapping[str, Any], path: Path, text: str) -> TaskFiles:
    """One task; paths are relative to the file."""
    where = tr("{path}, line {line}, task {name}", path=path, line=line_of(text, name, None), name=name)
    for key in ("kind", "train"):
        if key not in table:
            raise InputError(tr("{where}: {key} is missing.", where=where, key=key))
    with placed(where):
        kind = find_kind(str(table["kind"]))(name=name)
    roles = {*USUAL, "header"}
    check_settings(kind, table, path, text)
    check_keys(table, {"kind", "dropout", *FILES, *roles, *kind.settings()}, path, text, name)
    for key in (*FILES, *USUAL):
        if not isinstance(table.get(key, ""), str):
            raise InputError(
                tr("{where}: {key} takes a text in quotes; found {value}.", where=where, key=key, value=table[key])
            )
    kind = replace(kind, dropout=dropout_in(table, where))
    own = [f"task.{key}={as_text(value)}" for key, value in table.items() if key in kind.settings()]
    columns = Columns(**{key: value for key, value in table.items() if key in roles})
    paths = {key: path.parent / table[key] for key in FILES if key in table}
    with placed(where):
        for file in paths.values():
            check_file(file)
        return TaskFiles(task=settle_kind(kind, own)[0], columns=columns, **paths)


def check_settings(kind: Task, table: Mapping[str, Any], path: Path, text: str) -> None:
    """Refuse a setting of other kinds, with their names."""
    for key in table:
        kinds = [other for other in KINDS if key in find_kind(other).settings()]
        if kinds and key not in kind.settings():
            raise InputError(
                tr(
                    "{path}, line {line}: {key} is a setting of {kinds}, and has no effect on {kind}. Leave it out.",
                    path=path,
                    line=line_of(text, key, kind.name),
                    key=key,
                    kinds=comma().join(kinds),
                    kind=kind.kind,
                )
            )


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Errors with the place of what they are about."""
    try:
        yield
    except (InputError, SettingError) as error:
        raise InputError(tr("{where}: {error}", where=where, error=error)) from error


def dropout_in(table: Mapping[str, Any], where: str) -> float | None:
    """The dropout rate of one head; MT-DNN has its own for some tasks."""
    found = table.get("dropout")
    if found is None or (type(found) in (int, float) and 0 <= found < 1):
        return found
    raise InputError(
        tr("{where}: dropout takes a number from 0 to below 1; found {value}.", where=where, value=as_text(found))
    )


def check_keys(given: Mapping[str, Any], known: set[str], path: Path, text: str, table: str | None) -> None:
    if unknown := next((key for key in given if key not in known), None):
        raise InputError(
            tr(
                "{path}, line {line}: there is no key '{key}'.{hint} Known: {known}.",
                path=path,
                line=line_of(text, unknown, table),
                key=unknown,
                hint=nearest(unknown, known),
                known=comma().join(sorted(known)),
            )
        )


def line_of(text: str, key: str, table: str | None) -> int:
    """The line of a table, or of a key below it; 1 if it is written in another way."""
    lines = text.splitlines()
    start = line_of(text, table, None) if table else 0
    pattern = re.compile(rf"""\s*(\[\s*["']?{re.escape(key)}["']?\s*\]|["']?{re.escape(key)}["']?\s*=)""")
    return next((number for number in range(start + 1, len(lines) + 1) if pattern.match(lines[number - 1])), 1)
