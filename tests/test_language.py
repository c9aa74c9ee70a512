"""Messages in two languages: the catalogue is in step with the code, and no message bypasses it."""

import ast
import os
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields as fields_of
from itertools import chain

import pytest

from plmkit import language
from plmkit.choices import CHOICES
from plmkit.cli import main
from plmkit.cli.typer_words import WORD, error_in_language
from plmkit.errors import nearest
from plmkit.inference.evaluation import TextScore
from plmkit.language import LOCALE, comma, several, tr
from plmkit.prompting.metrics import METRICS
from plmkit.tasks.scores import class_scores, number_scores
from plmkit.terminal.labels import label
from tools import messages

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
        ({"PLM_LANG": "zh_CN"}, "zh"),
        ({"PLM_LANG": "zh-Hans"}, "zh"),
        ({"PLM_LANG": "Chinese"}, "zh"),
        ({"PLM_LANG": "中文"}, "zh"),
        ({"PLM_LANG": "English", "LANG": "zh_CN"}, "en"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN"}, "en"),
    ],
)
def test_the_language_follows_the_environment(variables, found, monkeypatch):
    for name in ("PLM_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert language.language() == found


@pytest.mark.parametrize(("name", "found"), [("", None), ("zh_TW", None), ("chines", "chines"), ("de", "de")])
def test_an_unknown_language_is_noticed(name, found, monkeypatch):
    monkeypatch.setenv("PLM_LANG", name)
    assert language.unknown_language() == found


def test_a_message_is_looked_up_and_filled_in(monkeypatch):
    monkeypatch.setattr(language, "catalogue", lambda name: {"{n:,} of {name}": "{name}中的{n:,}个"})
    assert tr("{n:,} of {name}", n=1200, name="x") == "1,200 of x"
    monkeypatch.setenv("PLM_LANG", "zh")
    assert tr("{n:,} of {name}", n=1200, name="x") == "x中的1,200个"
    assert tr("not in the catalogue: {{}} {n}", n=1) == "not in the catalogue: {} 1"


def test_reasons_of_the_system_are_translated_too(monkeypatch):
    def message():
        return tr("{path} cannot be read: {reason}.", path="Is a directory", reason="Permission denied")

    assert message() == "Is a directory cannot be read: Permission denied."
    monkeypatch.setenv("PLM_LANG", "zh")
    assert message() == "无法读取 Is a directory：没有权限。"


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


HAN = "[\u3400-\u9fff]"
PUNCTUATION = re.compile(
    rf"{HAN} ?[,:;](?!\w)|[,:;?] ?{HAN}"  # ASCII, next to Chinese
    r"|[，。：；？！、（）] |\w [，。：；？！、）]"  # a blank after or before what has its own
)


def punctuated(text: str) -> str | None:
    """The first ASCII punctuation next to Chinese, or blank next to full-width punctuation; values become X."""
    plain = re.sub(r"\{[^{}]*\}", "X", text).replace("[MASK]", "X")
    found = PUNCTUATION.search(re.sub(r"\[/?\w*\]", "", plain))
    return found[0] if found else None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("好，{count:,} 个；很好。", None),
        ("默认：0=bad,1=good。", None),
        ("好, 很好", "好,"),
        ("很好; 好", "好;"),
        ("实际为 {name}: 好", ": 好"),
        ("好。 是不是", "。 "),
        ("好 ，", "好 ，"),
    ],
)
def test_what_counts_as_wrong_punctuation(text, found):
    assert punctuated(text) == found


def test_translations_have_chinese_punctuation():
    found = [f"{punctuated(text)!r} in {text!r}" for text in CATALOGUE.values() if punctuated(text)]
    assert not found, "\n".join(found)


def test_no_translation_is_there_twice_or_has_another_one_behind_it():
    """Merging two catalogues by lines once left both versions of a translation, and parts of its neighbours."""
    assert not [text for text in CATALOGUE.values() if re.search(rf"({HAN}{{10,}}).*\1", text, re.DOTALL)]
    long = {key: len(text) / len(key) for key, text in CATALOGUE.items() if len(key) > 180}
    assert {key: share for key, share in long.items() if share > 0.75} == {}  # Chinese is shorter


def test_no_message_bypasses_the_catalogue():
    found = messages.untranslated()
    assert not found, "\n".join(f"{each.file}:{each.line}: {each.text}" for each in found)


def test_only_literals_are_translated():
    for file, tree in messages.sources():
        for call in messages.calls(tree, {"tr"}):
            assert messages.key_of(call) is not None, f"{file}:{call.lineno}: tr of something that is not a literal"


def test_lists_are_joined_in_the_readers_language():
    """`comma().join` and not `", ".join`, which Chinese writes with 、."""
    own = ("recipes/minutes.py", "demo/docstrings.py", "data/batch.py")  # keys, text to train on, errors of ours
    found = [
        f"{file}:{node.lineno}"
        for file, tree in messages.sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "join" and file not in own
        if isinstance(node.value, ast.Constant) and node.value.value == ", "
    ]
    assert not found, found


def test_a_list_in_both_languages(monkeypatch):
    assert comma().join("ab") == "a, b"
    monkeypatch.setenv("PLM_LANG", "zh")
    assert comma().join("ab") == "a、b"


def calls_at_import(node: ast.AST) -> Iterator[ast.Call]:
    """Calls of `tr` and the like that run when the module is imported, which would fix the language then."""
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        yield from chain.from_iterable(map(calls_at_import, defaults))
        return
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {*messages.TRANSLATING, "comma"} - {"message"}  # which keeps its text in English
    ):
        yield node
    yield from chain.from_iterable(map(calls_at_import, ast.iter_child_nodes(node)))


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('X = {"a": tr("b")}', 1),
        ('class A:\n    b: str = tr("c")', 1),
        ('def f(a=tr("b"), *, c=tr("d")):\n    return tr("e")', 2),
        ('X = {"a": lambda: tr("b")}', 0),
        ('class A:\n    b: str = message("c")', 0),
    ],
)
def test_what_runs_at_import(code, count):
    assert len(list(calls_at_import(ast.parse(code)))) == count


def test_no_module_fixes_the_language_at_import():
    """But for `plm`: typer takes help texts as strings, and a command has one language."""
    trees = {file: tree for file, tree in messages.sources() if not file.startswith("cli/")}
    found = [f"{file}:{call.lineno}" for file, tree in trees.items() for call in calls_at_import(tree)]
    assert not found, f"translate where it is shown, not at import: {found}"


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
    assert nearest("epoch", ["epochs"]) == "是不是想写 'epochs'？"


def test_help_in_chinese():
    code = "import sys; sys.argv[1:] = ['fill', '--help']; from plmkit.cli import main; main()"
    environment = {**os.environ, "PLM_LANG": "zh", "COLUMNS": "60"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "…" not in ran.stdout  # cut off, where a narrow terminal has to fold
    assert "用掩码语言模型填空" in ran.stdout
    assert "用法：plm fill [选项]" in ran.stdout
    assert "╭─ 选项 ─" in ran.stdout
    assert "[默认：5]" in ran.stdout
    assert "示例：plm fill runs/mine" in ran.stdout


def test_sentences_in_chinese_have_no_blank_between_them(monkeypatch, capsys):
    """Messages that are joined from several; a list of settings or a citation may have blanks."""
    monkeypatch.setenv("PLM_LANG", "zh")
    monkeypatch.setattr(sys, "argv", ["plm", "fill", "nowhere", "a [MASK]"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("plm: 没有目录 'nowhere'。请给出运行目录、")


def test_help_of_no_verb_ends_a_chinese_sentence_with_an_english_stop():
    code = (
        "from plmkit.cli import app\n"
        "for verb in app.registered_commands:\n"
        "    app([verb.name or verb.callback.__name__, '--help'], standalone_mode=False)\n"
    )
    environment = {**os.environ, "PLM_LANG": "zh", "COLUMNS": "300"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "训练前检查语料" in ran.stdout and "转换以旧格式发布的模型" in ran.stdout  # the first and the last
    assert re.findall(rf".*{HAN}[.,;:](?:\s|$).*", ran.stdout) == []


def test_lines_of_help_break_between_words():
    line = "默认：text、sentence（见 `plm recipes`）。-- …"
    found, place = [], 0
    while match := WORD.match(line, place):
        found.append(match[0])
        place = match.end()
    assert place == len(line)
    assert found == ["默", "认：", "text、", "sentence", "（见 ", "`plm ", "recipes`）。", "-- ", "…"]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("No such command 'pretran'. Did you mean 'pretrain'?", "没有命令 'pretran'。是不是想写 'pretrain'？"),
        ("No such command 'x'.", "没有命令 'x'。"),
        ("No such option: --quite (Possible options: --quiet)", "没有选项 --quite。是不是想写 --quiet？"),
        ("No such option: --bogus", "没有选项 --bogus。"),
        ("Missing argument 'MODEL'.", "缺少参数 'MODEL'。"),
        ("Option '--top' requires an argument.", "选项 '--top' 后面缺少值。"),
        ("Invalid value for '--top': Input should be greater than or equal to 1", "'--top' 的值无效：不能小于 1。"),
        ("Invalid value for '--top': 'a' is not a valid integer.", "'--top' 的值无效：'a' 不是整数。"),
        ("something new", "something new"),
    ],
)
def test_errors_of_the_parser_in_chinese(message, found, monkeypatch):
    assert error_in_language(message) == message
    monkeypatch.setenv("PLM_LANG", "zh")
    assert error_in_language(message) == found


@pytest.mark.parametrize(
    "arguments",
    [
        ["pretran"], ["fill"], ["fill", "x", "y", "z"], ["fill", "x", "y", "--top"], ["fill", "x", "y", "--top", "a"],
        ["fill", "x", "y", "--top", "0"], ["fill", "x", "y", "--quite"], ["fill", "x", "y", "--json=3"],
        ["generate", "x", "--temperature", "hot"], ["finetune", "x", "--task", "classify", "--out", "y"],
    ],
)  # fmt: skip
def test_mistakes_on_the_command_line_are_explained_in_chinese(arguments, monkeypatch, capsys):
    monkeypatch.setenv("PLM_LANG", "zh")
    monkeypatch.setattr(sys, "argv", ["plm", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert not re.search(r"[A-Za-z]{2,} [a-z]{2,}", said.splitlines()[0]), said  # no two English words in a row
    assert re.search(HAN, said.splitlines()[0])


def test_an_unknown_language_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("PLM_LANG", "chines")
    monkeypatch.setattr(sys, "argv", ["plm", "recipes"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "plm: PLM_LANG=chines: there are no messages in this language. "
        "Set PLM_LANG=zh (中文) or PLM_LANG=en (English).\n"
    )


def test_losses_and_scores_have_names_in_chinese(monkeypatch):
    monkeypatch.setenv("PLM_LANG", "zh")
    objectives = CHOICES["objectives"]
    names = {kind.name for kind in objectives} | {kind.label or kind.name for kind in objectives}
    names |= {*class_scores([0], [0], ["a"]), *number_scores([1.0], [1.0]), *METRICS}
    names |= {field.name for field in fields_of(TextScore) if field.type in (int, float)}
    assert [name for name in sorted(names) if label(name) == name] == []


# Plain words (the glossary in CONTRIBUTING.md)

DIALECT = re.compile(
    r"unless told|\bso (?:many|often)\b|\banew\b|\bbehind\b|\bgo(?:es|ing)? on\b|\btold\b|\blikeliest\b|\bcommonest\b"
    r"|\bbits a\b|\btokens a second\b|\ban epoch\b|\bmemory of this machine\b|\bhidden (?:token|word|character|span)"
    r"|\blearnt\b|\bbegun\b|(?<!\.)\bspread\b|there is none\b"
)


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
