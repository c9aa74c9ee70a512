"""Messages in two languages: the catalogue is in step with the code, and no message bypasses it."""

import ast
import os
import re
import string
import subprocess
import sys

import pytest

from plmkit import language
from plmkit.errors import nearest
from plmkit.language import LOCALE, several, tr
from tools import messages

# rooms whose messages are still written as plain strings
ROOT = LOCALE.parent.parent
CATALOGUE = dict(language.read_po((LOCALE / "zh.po").read_text(encoding="utf-8"))[1:])


def rooms(files: list[str]) -> set[str]:
    return {file.split("/")[0] for file in files}


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LC_ALL": "zh_CN", "PLM_LANG": "en"}, "en"),
        ({"PLM_LANG": "zh"}, "zh"),
        ({"PLM_LANG": "", "LANG": "zh_CN"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
    ],
)
def test_the_language_follows_the_environment(variables, found, monkeypatch):
    for name in ("PLM_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert language.language() == found


def test_a_message_is_looked_up_and_filled_in(monkeypatch):
    monkeypatch.setattr(language, "catalogue", lambda name: {"{n:,} of {name}": "{name}中的{n:,}个"})
    assert tr("{n:,} of {name}", n=1200, name="x") == "1,200 of x"
    monkeypatch.setenv("PLM_LANG", "zh")
    assert tr("{n:,} of {name}", n=1200, name="x") == "x中的1,200个"
    assert tr("not in the catalogue: {{}} {n}", n=1) == "not in the catalogue: {} 1"


def test_counted_nouns_in_both_languages(monkeypatch):
    assert (several(1, "document"), several(2000, "document")) == ("1 document", "2,000 documents")
    monkeypatch.setenv("PLM_LANG", "zh")
    assert (several(1, "document"), several(2000, "document")) == ("1 篇文档", "2,000 篇文档")
    assert several(2, "unheard-of thing") == "2 unheard-of things"


def test_a_po_file_is_read_as_its_tools_write_it():
    content = (
        'msgid ""\nmsgstr "Language: zh\\n"\n\n#: a.py\n#, python-format\n'
        'msgid "one\\n"\n"two \\"quoted\\""\nmsgstr ""\n"一\\n"\n"二"\n\n'
        'msgid "{count:,} row"\nmsgid_plural "{count:,} rows"\nmsgstr[0] "{count:,} 行"\n'
    )
    assert language.read_po(content)[1:] == [('one\ntwo "quoted"', "一\n二"), ("{count:,} row", "{count:,} 行")]


def test_every_message_is_in_the_catalogue_and_none_is_stale():
    keys = messages.keys()
    empty = {key: rooms(files) for key, files in keys.items() if not CATALOGUE.get(key)}
    missing = [f"{key!r} in {found}" for key, found in empty.items()]
    assert not missing, "run `python -m tools.messages` and translate: " + "\n".join(missing)
    stale = {key for key, text in CATALOGUE.items() if text} - keys.keys()
    assert not stale, f"run `python -m tools.messages`, which drops {stale}"


@pytest.mark.parametrize("key", [key for key, text in CATALOGUE.items() if text])
def test_a_translation_has_the_same_values_and_the_same_kind(key):
    text = CATALOGUE[key]
    assert fields(key) == fields(text)
    assert key.startswith("!") == text.startswith("!")  # warnings, which a quiet command still shows
    assert len(key) - len(key.lstrip("\n")) == len(text) - len(text.lstrip("\n"))
    assert key.endswith("\n") == text.endswith("\n")


def test_no_message_bypasses_the_catalogue():
    found = messages.untranslated()
    assert not found, "\n".join(f"{each.file}:{each.line}: {each.text}" for each in found)


def test_only_literals_are_translated():
    for file, tree in messages.sources():
        for call in messages.calls(tree, {"tr"}):
            assert messages.key_of(call) is not None, f"{file}:{call.lineno}: tr of something that is no literal"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('raise InputError("no such file")', 1),
        ('raise InputError(f"{name} holds {count}")', 1),
        ('raise InputError(tr("{name} is a folder", name=name))', 0),
        ('say(tr("{a}", a="some words here"))', 1),
        ('"""some words here"""', 0),
        ('x = "some words here".split()', 0),
        ('assert x, "some words here"', 0),
        ('print("plm fill runs/x")', 0),
        ("x = f\"{y}: {'some words' if z else 1}\"", 1),
    ],
)
def test_what_counts_as_a_message(code, count):
    assert len(list(messages.bypassing(ast.parse(code)))) == count


def test_a_suggestion_in_chinese(monkeypatch):
    monkeypatch.setenv("PLM_LANG", "zh")
    assert nearest("epoch", ["epochs"]) == " 是不是想写 'epochs'？"


def test_help_in_chinese():
    code = "import sys; sys.argv[1:] = ['fill', '--help']; from plmkit.cli import main; main()"
    environment = {**os.environ, "PLM_LANG": "zh", "COLUMNS": "60"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "…" not in ran.stdout  # cut off, where a narrow terminal has to fold
    assert "用掩码语言模型填空" in ran.stdout
    assert "选项" in ran.stdout
    assert "示例：plm fill runs/mine" in ran.stdout


# Plain words (the glossary in CONTRIBUTING.md)

DIALECT = re.compile(
    r"unless told|\bso (?:many|often)\b|\banew\b|\bbehind\b|\bgo(?:es|ing)? on\b|\btold\b|\blikeliest\b|\bcommonest\b"
    r"|\bbits a\b|\btokens a second\b|\ban epoch\b|\bmemory of this machine\b|\bhidden (?:token|word|character|span)"
    r"|\blearnt\b|\bbegun\b|(?<!\.)\bspread\b|there is none\b"
)
# rooms whose messages still wait for a rewrite by the glossary


def visible_texts() -> list[tuple[str, str]]:
    """(file, text) of every message, translated or not yet."""
    known = messages.keys()
    found = [
        (file, re.sub(r"\{\w+", "{", key)) for key, files in known.items() for file in files
    ]  # not names of values
    return found + [(each.file, each.text) for each in messages.untranslated()]


def test_messages_are_written_in_the_fields_own_words():
    found = [f"{file}: {text}" for file, text in visible_texts() if DIALECT.search(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "benchmarks/README.md", "docs/*.md"])
def test_documents_are_written_in_the_fields_own_words(name):
    lines = [(path, line) for path in ROOT.glob(name) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines
    found = [f"{path.name}: {line}" for path, line in lines if DIALECT.search(line)]
    assert not found, "\n".join(found)
