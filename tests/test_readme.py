"""Every command and every Python line of the README runs, in both languages, on tiny data."""

import json
import random
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from made_shapes import write_shapes

from plmkit import cli
from plmkit.catalogue import CATALOGUE
from plmkit.choices import OBJECTIVES
from plmkit.data.vocabulary import SPECIAL_TOKENS
from tools.objectives import with_table

ROOT = Path(__file__).parent.parent
READMES = ("README.md", "README.zh.md")
# the same commands, small enough for a test: nothing else of them is changed
SMALLER = {"--minutes": ["--steps", "4"], "--steps": ["--steps", "4"], "--seeds": ["--seeds", "2"]}
TINY = ["architecture.layers=1", "schedule.batch=4"]


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(name: str) -> list[list[str]]:
    """Every command of `plm`, without what starts it in another language or in several processes."""
    lines = [line for block in blocks(name, "sh") for line in block.splitlines()]
    found = [re.sub(r"^(PLM_LANG=\w+ plm|torchrun .*-m plmkit) ", "plm ", line) for line in lines]
    return [shlex.split(line, comments=True) for line in found if line.startswith("plm ")]


def smaller(command: list[str]) -> list[str]:
    out: list[str] = []
    words = iter(command)
    for word in words:
        if word in SMALLER and not (word == "--minutes" and "--search" in command):
            next(words)
            out += SMALLER[word]
        else:
            out.append(word)
    if command[1] == "pretrain" and command[2] != "skipgram":
        out += [part for setting in TINY for part in ("--set", setting)]
    if command[1] == "finetune":
        out += ["--epochs", "1"]
    return out


def smaller_code(code: str) -> str:
    return re.sub(r"\bepochs=\d+", "epochs=1", re.sub(r"\bminutes=\d+", "steps=4", code))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the README speaks of."""
    rng = random.Random(1)
    words = "the weather is fine today we walk along river and read good book 今天天气很好我们去公园散步".split()
    text = [" ".join(rng.choices(words, k=8)) + "." for _ in range(200)]
    (tmp_path / "my_texts").mkdir()
    (tmp_path / "my_texts" / "a.txt").write_text(
        "\n\n".join("\n".join(text[start : start + 4]) for start in range(0, 200, 4)), encoding="utf-8"
    )
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        rows = "".join(f"{line}\t{'good' if 'fine' in line else 'bad'}\n" for line in rng.sample(text, 24))
        (tmp_path / name).write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    tables = {
        "reviews.csv": "review,sentiment\n",
        "shop.csv": "编号,评论,标签\n",
        "plain.tsv": "",
        "notes.csv": "body\n",
    }
    for name, header in tables.items():
        rows = []
        for number, line in enumerate(rng.sample(text, 40)):
            label = "good" if number % 3 else "bad"
            cells = {"reviews.csv": [line, label], "shop.csv": [str(number), line, label], "plain.tsv": [label, line]}
            rows.append(("\t" if name.endswith("tsv") else ",").join(cells.get(name, [f"{line} {line}"])) + "\n")
        (tmp_path / name).write_text(header + "".join(rows), encoding="utf-8")
    (tmp_path / "lines.txt").write_text("\n".join(f"{a} {b}" for a, b in pairwise(text)) + "\n", encoding="utf-8")
    letters = sorted({letter for line in text for letter in line if letter != " "})
    pieces = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    for name, header in {"pairs.tsv": "en\tde", "articles.tsv": "article\tsummary"}.items():
        rows = "".join(f"{line}\t{' '.join(reversed(line.split()[:4]))}\n" for line in rng.sample(text, 60))
        (tmp_path / name).write_text(f"{header}\n{rows}", encoding="utf-8")
    write_shapes(tmp_path / "photos", 20, seed=0)
    facts = "".join(f"{head}\tcapital_of\t{tail}\n" for head, tail in (("q1", "q2"), ("q3", "q4"), ("q5", "q6")))
    (tmp_path / "triples.tsv").write_text(f"head\trelation\ttail\n{facts}", encoding="utf-8")
    (tmp_path / "facts_test.tsv").write_text("q1\tcapital_of\tq2\n", encoding="utf-8")
    named = zip(("q1", "q2", "q3", "q4", "q5", "q6"), ("Paris", "France", "Lima", "Peru", "Rome", "Italy"), strict=True)
    (tmp_path / "names.tsv").write_text("".join(f"{own}\t{name}\n" for own, name in named), encoding="utf-8")
    questions = [(number, line, rng.sample(text, 4)) for number, line in enumerate(rng.sample(text, 6))]
    rows = "".join(
        f"{qid}\t{question}\t{answer}\t{int(place == 0)}\n"
        for qid, question, answers in questions
        for place, answer in enumerate(answers)
    )
    (tmp_path / "candidates.tsv").write_text(f"qid\tquestion\tanswer\tlabel\n{rows}", encoding="utf-8")
    rows = "".join(f"{one}\t{other}\t{number % 2}\n" for number, (one, other) in enumerate(pairwise(text[:25])))
    titles = "".join(f"walk {number // 2}\t{line}\t{number % 2}\n" for number, line in enumerate(text[:20]))
    (tmp_path / "clicks.tsv").write_text(f"query\ttitle\tlabel\n{titles}", encoding="utf-8")
    topics = "".join(f"we walk number {number}\t{('walk', 'walk|river', '')[number % 3]}\n" for number in range(12))
    (tmp_path / "topics.tsv").write_text(f"text\tlabels\n{topics}", encoding="utf-8")
    (tmp_path / "matches.tsv").write_text(f"text_a\ttext_b\tlabel\n{rows}", encoding="utf-8")
    tagged = "1\tthe\t_\tDET\n2\tweather\t_\tNOUN\n3\tis\t_\tVERB\n\n"
    (tmp_path / "tagged.conllu").write_text(tagged * 10, encoding="utf-8")
    (tmp_path / "entities.conll").write_text("we O\nwalk O\nalong O\nriver B-LOC\n\n" * 10, encoding="utf-8")
    utterances = [{"tokens": ["read", "book"], "tags": ["O", "B-item"], "intent": name} for name in ("read", "buy")]
    (tmp_path / "utterances.jsonl").write_text("\n".join(map(json.dumps, utterances * 5)) + "\n", encoding="utf-8")
    span = {"type": "labels", "value": {"start": 8, "end": 13, "text": "river", "labels": ["LOC"]}}
    studio = [{"id": 1, "data": {"text": "we walk river"}, "annotations": [{"result": [span]}]}]
    (tmp_path / "annotated.json").write_text(json.dumps(studio), encoding="utf-8")
    asked = [
        {"id": str(number), "question": "where do we walk?", "answers": [{"text": line[:7], "answer_start": 0}]}
        for number, line in enumerate(text[:12])
    ]
    paragraphs = [{"context": line, "qas": [one]} for line, one in zip(text, asked, strict=False)]
    (tmp_path / "questions.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    quiz = [
        {"question": line, "choices": rng.sample(text, 3), "label": number % 3} for number, line in enumerate(text[:12])
    ]
    (tmp_path / "quiz.jsonl").write_text("\n".join(map(json.dumps, quiz)) + "\n", encoding="utf-8")
    (tmp_path / "tasks.toml").write_text(blocks("README.md", "toml")[0], encoding="utf-8")
    (tmp_path / "new.txt").write_text("\n".join(text[:5]) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::plmkit.errors.UnknownTokensWarning")  # the tiny vocabulary lacks some
@pytest.mark.parametrize("name", READMES)
def test_every_command_and_python_line_of_the_readme_runs(name, desk, monkeypatch, capsys):
    ran = []
    for command in commands(name):
        if command in ran:  # the first two commands come again in the worked example
            continue
        ran.append(command)
        monkeypatch.setattr("sys.argv", smaller(command))
        try:
            cli.main()
        except SystemExit as stop:
            assert not stop.code, f"{shlex.join(command)}\n{capsys.readouterr().err}"
    assert {command[1] for command in ran} >= {
        "doctor", "pretrain", "finetune", "fill", "evaluate", "predict", "embed", "export", "recipes",
        "generate", "score", "prompt", "translate", "caption", "complete", "neighbours", "probe",
        "search", "compress",
    }  # fmt: skip
    for file in (
        "new.hyp.txt",
        "new.conll",
        "entities-exported/model.safetensors",
        "best.jsonl",
        "pairs.hyp.txt",
        "answers.tsv",
        "ranks.tsv",
        "found.tsv",
        "vectors.npy",
        "exported/model.safetensors",
        "runs/reviews/scores.json",
    ):
        assert (desk / file).is_file()
    for code in blocks(name, "python"):
        exec(compile(smaller_code(code), name, "exec"), {})  # our own README, not something loaded


@pytest.mark.parametrize("name", READMES)
def test_the_table_of_recipes_is_true_and_whole(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^`|]+ \| [^`|]+ \|([^|]*)\|([^|]*)\|$", text, flags=re.MULTILINE)
    listed = [[found for row in rows for found in re.findall("`(.+?)`", row[column])] for column in (0, 1)]
    made_for_minutes = {key: make().for_minutes for key, make in CATALOGUE.items()}
    assert listed[0] == [key for key, quick in made_for_minutes.items() if quick]
    assert listed[1] == [key for key, quick in made_for_minutes.items() if not quick]


@pytest.mark.parametrize("name", READMES)
def test_the_table_of_objectives_is_the_one_that_the_registry_gives(name):
    """`python -m tools.objectives` writes it."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert with_table(text, name) == text
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| `\w+` \| .* \| `\w+` \| ", line)]
    assert [row[0].strip("| `") for row in rows] == [objective.name for objective in OBJECTIVES]
    assert {row[0].strip("| `"): row[1:3] for row in rows}["masked_lm"] == ["hidden, targets", "`MaskedLMHead`"]
    assert rows[0][3].startswith("Predict the masked" if name == "README.md" else "预测被掩码的词元")


def test_both_readmes_have_the_same_sections():
    first, second = (
        re.findall(r"^#+ ", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE) for name in READMES
    )
    assert first == second


def test_both_readmes_give_the_same_commands():
    first, second = ([[word for word in line if "MASK" not in word] for line in commands(name)] for name in READMES)
    assert first == second
