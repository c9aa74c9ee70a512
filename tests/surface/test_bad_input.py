"""Mistakes: each gives one to three lines on stderr and exit code 2, and nothing on disk changes."""

import json
import shutil
from pathlib import Path

import pytest

from plmkit.storage.manifest import unseal

GOOD = "text\tlabel\nthe cat sees a house.\tgood\na bird hears the moon.\tbad\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A desk with a corpus and labelled rows that are all right."""
    (tmp_path / "train.tsv").write_text(GOOD, encoding="utf-8")
    (tmp_path / "corpus.txt").write_text("A cat. A dog.\n\nA bird. A sea.\n\nThe moon. The king.\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def refused(plm, here):
    """Run a command that must be refused; gives what it said."""

    def run(*arguments: object) -> str:
        before = contents(here)
        ran = plm(*arguments)
        assert ran.code == 2, ran
        assert ran.out == ""
        assert "Traceback" not in ran.err
        message = ran.err[ran.err.index("plm: ") :]
        assert 1 <= len(message.splitlines()) <= 3, message
        assert contents(here) == before, "something was written"
        return message

    return run


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def tune(model: Path, here: Path, *more: object, task: str = "classify", train: str = "train.tsv") -> tuple:
    return ("finetune", model, "--task", task, "--train", here / train, "--out", here / "out", *more)


def train(here: Path, *more: object, recipe: str = "bert-tiny") -> tuple:
    return ("pretrain", recipe, here / "corpus.txt", "--out", here / "out", "--steps", 2, *more)


# Files


def test_a_missing_corpus(refused, here):
    said = refused("pretrain", "bert-tiny", here / "corpse.txt", "--out", here / "out", "--steps", 1)
    assert "corpse.txt" in said
    assert f"Did you mean '{here / 'corpus.txt'}'?" in said


def test_a_missing_train_file(refused, here, pretrained):
    assert "There is no file" in refused(*tune(pretrained, here, train="tain.tsv"))


@pytest.mark.parametrize("option", ["--dev", "--test"])
def test_a_missing_dev_or_test_file(option, refused, here, pretrained):
    assert "Did you mean 'train.tsv'?" in refused(*tune(pretrained, here, option, here / "tran.tsv"))


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_a_missing_file_of_rows(verb, refused, here, finetuned):
    assert "There is no file" in refused(verb, finetuned, here / "rows.tsv")


def test_a_missing_file_to_embed(refused, here, pretrained):
    assert "There is no file" in refused("embed", pretrained, here / "rows.txt", "--out", here / "v.npy")


def test_the_tokens_of_vectors_are_not_written_over_the_file_that_is_read(refused, here, pretrained):
    file = here / "keep.jsonl"
    file.write_text('{"text": "the cat"}\n')
    said = refused("embed", pretrained, file, "--out", here / "keep.npy", "--level", "token")
    assert said == (
        f"plm: {file}, where the index of tokens would be written, is the input file.\n"
        "Name another --out, so that it is not overwritten.\n"
    )


@pytest.mark.parametrize(
    "content", ['{"text": "the cat"}\n', '{"begin": 0, "tokens": []}\nnotes\n', "3\n", "\n", "\ufeff{}", "\x00"]
)
def test_the_tokens_of_vectors_are_not_written_over_another_file(content, refused, here, pretrained):
    index = here / "v.jsonl"
    index.write_text(content, encoding="utf-8")
    said = refused("embed", pretrained, here / "train.tsv", "--out", here / "v.npy", "--level", "token")
    assert said == (
        f"plm: {index}, where the index of tokens would be written, exists and holds something else.\n"
        "Name another --out, so that it is not overwritten.\n"
    )


def test_a_missing_file_is_reported_though_the_output_is_there(refused, here, finetuned):
    assert "There is no file" in refused("predict", finetuned, here / "rows.tsv", "--out", here / "train.tsv")


@pytest.mark.parametrize("verb", ["doctor", "finetune", "evaluate", "predict", "embed"])
def test_an_empty_file(verb, refused, here, pretrained, finetuned):
    empty = here / "empty.tsv"
    empty.write_bytes(b"")
    command = {
        "doctor": ("doctor", empty),
        "finetune": tune(pretrained, here, train="empty.tsv"),
        "evaluate": ("evaluate", finetuned, empty),
        "predict": ("predict", finetuned, empty),
        "embed": ("embed", pretrained, empty, "--out", here / "v.npy"),
    }[verb]
    says = "There is no text in empty.tsv. Give files that contain text." if verb == "doctor" else f"{empty} is empty."
    assert refused(*command) == f"plm: {says}\n"


def test_a_file_with_a_header_alone(refused, here, pretrained):
    (here / "train.tsv").write_text("text\tlabel\n")
    assert "has no rows, only the columns text, label" in refused(*tune(pretrained, here))


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "predict"])
def test_a_binary_file(verb, refused, here, pretrained, finetuned):
    content = b"text\tlabel\nsome\0thing\tgood\n" + bytes(range(256))
    (here / "train.tsv").write_bytes(content)
    (here / "corpus.txt").write_bytes(content)
    commands = {
        "pretrain": train(here),
        "finetune": tune(pretrained, here),
        "predict": ("predict", finetuned, here / "train.tsv"),
    }
    assert ", line 2: binary data (a NUL byte), not text. Give plain text files.\n" in refused(*commands[verb])


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "evaluate"])
def test_text_that_is_not_utf_8_is_named_by_file_and_line(verb, refused, here, pretrained, finetuned):
    content = "text\tlabel\nthe cat\tgood\n我的狗\tbad\n".encode("gb18030")
    (here / "train.tsv").write_bytes(content)
    (here / "corpus.txt").write_bytes(content)
    commands = {
        "pretrain": train(here),
        "finetune": tune(pretrained, here),
        "evaluate": ("evaluate", finetuned, here / "train.tsv"),
    }
    said = refused(*commands[verb])
    assert f"{'corpus.txt' if verb == 'pretrain' else 'train.tsv'}, line 3" in said
    assert "UTF-8" in said


def test_a_file_of_an_unknown_kind(refused, here, pretrained):
    (here / "train.docx").write_text(GOOD)
    assert "Use .tsv, .csv, .jsonl" in refused(*tune(pretrained, here, train="train.docx"))


# Labels


def test_a_label_column_that_is_missing(refused, here, pretrained):
    (here / "train.tsv").write_text("text\tmood\nthe cat\tgood\na dog\tbad\n")
    said = refused(*tune(pretrained, here))
    assert "has no column label. Columns found: text, mood.\nChoose the right one: --label COLUMN." in said


def test_a_text_column_that_is_missing(refused, here, pretrained):
    (here / "train.tsv").write_text("words\tlabel\nthe cat\tgood\na dog\tbad\n")
    assert "has no column text" in refused(*tune(pretrained, here))


def test_one_class_only(refused, here, pretrained):
    (here / "train.tsv").write_text("text\tlabel\nthe cat\tgood\na dog\tgood\n")
    assert "at least two classes; all 2 rows" in refused(*tune(pretrained, here))


@pytest.mark.parametrize("option", ["--dev", "--test"])
def test_a_label_that_training_never_saw(option, refused, here, pretrained):
    (here / "other.tsv").write_text("text\tlabel\nthe cat\tgood\na dog\tbadd\n")
    said = refused(*tune(pretrained, here, option, here / "other.tsv"))
    assert "other.tsv, line 3: label 'badd' does not occur in training. Did you mean 'bad'?" in said


def test_a_label_that_training_never_saw_when_evaluating(refused, here, finetuned):
    (here / "other.tsv").write_text("text\tlabel\nthe cat\tneutral\n")
    assert "label 'neutral' does not occur in training" in refused("evaluate", finetuned, here / "other.tsv")


def test_labels_that_are_no_numbers_for_regression(refused, here, pretrained):
    assert "label 'good' is not a number" in refused(*tune(pretrained, here, task="regress"))


def test_no_row_with_a_text(refused, here, pretrained):
    (here / "train.tsv").write_text("text\tlabel\n \tgood\n\tbad\n")
    assert "train.tsv: none of its 2 rows has both text and a label." in refused(*tune(pretrained, here))


def test_single_texts_for_a_task_of_pairs(refused, here, pretrained):
    assert "has no column text_b" in refused(*tune(pretrained, here, task="pair"))


def test_pairs_for_a_task_of_single_texts(refused, here, pretrained):
    (here / "train.tsv").write_text("text_a\ttext_b\tlabel\nthe cat\ta dog\tgood\n")
    assert "Use `--task pair`" in refused(*tune(pretrained, here))


def test_rows_without_labels_cannot_be_evaluated(refused, here, finetuned):
    (here / "new.txt").write_text("the cat\n")
    assert "has no column label" in refused("evaluate", finetuned, here / "new.txt")


# Texts that are too long


def test_a_text_longer_than_the_model_is_cut_and_said(plm, here, pretrained):
    (here / "train.tsv").write_text(GOOD + "the cat sees a house. " * 40 + "\tgood\n")
    ran = plm(*tune(pretrained, here, "--epochs", 1, "--set", "run.threads=1"))
    assert ran.code == 0
    assert "1 of 3 rows are longer than 64 tokens and are truncated" in ran.err


def test_a_blank_in_a_text_that_is_too_long(refused, pretrained):
    assert "reads at most 62" in refused("fill", pretrained, "the cat sees. " * 40 + "[MASK]")


def test_a_text_without_a_blank(refused, pretrained):
    assert "The text has no [MASK]" in refused("fill", pretrained, "the cat sees a house.")


# Names and values


@pytest.mark.parametrize("verb", ["pretrain", "recipes", "doctor"])
def test_an_unknown_recipe(verb, refused, here):
    commands = {
        "pretrain": train(here, recipe="bert-tni"),
        "recipes": ("recipes", "bert-tni"),
        "doctor": ("doctor", here / "corpus.txt", "--recipe", "bert-tni"),
    }
    assert "There is no recipe 'bert-tni'. Did you mean 'bert-tiny'?" in refused(*commands[verb])


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("schedule.learning_rte=1", "'schedule.learning_rate'"),
        ("shedule.learning_rate=1", "'schedule'"),
        ("architecture.layer=3", "'architecture.layers'"),
        ("corruption.rte=0.2", "'corruption.rate'"),
        ("run.thread=1", "'run.threads'"),
    ],
)
def test_an_unknown_setting_of_pretraining(setting, hint, refused, here):
    said = refused(*train(here, "--set", setting))
    assert "There is no setting" in said
    assert f"Did you mean {hint}?" in said


def test_an_unknown_setting_of_fine_tuning(refused, here, pretrained):
    assert "Did you mean 'task.epochs'?" in refused(*tune(pretrained, here, "--set", "task.epoch=1"))
    said = refused(*tune(pretrained, here, "--set", "task.colours=[1,2]"))
    assert said.startswith("plm: There is no setting 'task.colours'. Known: task.batch, task.clip, ")
    assert "Did you mean" not in said
    assert "start with task or run" in refused(*tune(pretrained, here, "--set", "schedule.learning_rate=1"))


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("schedule.learning_rate=fast", "a number"),
        ("schedule.batch=2.5", "a whole number"),
        ("run.compile=perhaps", "true or false"),
        ("stages=128", "a JSON list"),
        ("schedule.learning_rate=", "a number"),
    ],
)
def test_a_setting_of_the_wrong_type(setting, wanted, refused, here):
    assert f"takes {wanted}" in refused(*train(here, "--set", setting))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("schedule.learning_rate=-1", "schedule.learning_rate must be above 0; found -1.0."),
        ("schedule.batch=0", "schedule.batch must be above 0; found 0."),
        ("corruption.rate=1.5", "corruption.rate must be the share of tokens to mask, above 0 and below 1; found 1.5."),
        ("run.checkpoint_steps=0", "run.checkpoint_steps must be 1 or more; found 0."),
        ("tokenizer.size=3", "tokenizer.size is 3, but the special tokens alone take 5. Choose a larger size: 8000"),
        ("schedule.warmup=2", "schedule.warmup must be a share of the run, below 1; found 2.0."),
        ("schedule.shape=square", "Unknown schedule shape 'square'; choose from linear_over_all, linear_product, "),
        ("run.device=cud", "run.device=cud is not available on this machine. Use auto or cpu"),
        ("run.dtype=float8", "run.dtype takes auto, float32 or bfloat16; found 'float8'."),
        ("run.layout=lines", "There is no layout 'lines'. Did you mean 'blank-lines'? Layouts: auto, blank-lines, "),
        (
            "stages=[[1.0, 4096]]",
            "bert-tiny: stages use rows of 4096 tokens, but architecture.max_length is 512. Change one",
        ),
    ],
)
def test_a_setting_that_cannot_be(setting, says, refused, here):
    assert refused(*train(here, "--set", setting)).startswith(f"plm: {says}")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (
            "architecture.heads=3",
            "architecture.width=128 is not a multiple of architecture.heads=3. Choose a width that is.",
        ),
        ("architecture.activation=swish", "Unknown architecture.activation 'swish'; choose from gelu, gelu_tanh, "),
        ("architecture.width=0", "architecture.width must be at least 1; found 0."),
        ("architecture.layers=-1", "architecture.layers must be at least 1; found -1."),
    ],
)
def test_a_shape_that_no_network_has(setting, says, refused, here):
    assert refused(*train(here, "--set", setting)).startswith(f"plm: {says}")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("task.pooling=middle", "task.pooling takes first, mean, max, concat, last, separator; found 'middle'."),
        ("run.device=cud", "run.device=cud is not available on this machine. Use auto or cpu"),
        ("task.length=4096", "task.length=4096, but the maximum length of {model} is 64 tokens."),
        ("task.batch=0", "task.batch must be a finite number above 0; found 0."),
    ],
)
def test_a_setting_of_fine_tuning_that_cannot_be(setting, says, refused, here, pretrained):
    said = refused(*tune(pretrained, here, "--set", setting))
    assert said.startswith(f"plm: {says.format(model=pretrained)}")


def test_a_setting_without_a_value(refused, here):
    assert "--set takes name=value" in refused(*train(here, "--set", "schedule.learning_rate"))


def test_an_unknown_task(refused, here, pretrained):
    assert "There is no task 'clasify'. Did you mean 'classify'?" in refused(*tune(pretrained, here, task="clasify"))


def test_an_unknown_verb(refused):
    assert "Did you mean 'finetune'?" in refused("fine-tune", "x")


def test_an_unknown_option(refused, pretrained):
    said = refused("fill", pretrained, "a [MASK]", "--tpo", 3)
    assert said == "plm: No such option: --tpo (Possible options: --top)\n`plm fill --help` lists its options.\n"


@pytest.mark.parametrize("command", [("pretrain",), ("finetune",), ("fill",), ("doctor",), ("evaluate", "x")])
def test_an_argument_that_is_missing(command, refused):
    said = refused(*command)
    assert "Missing argument" in said
    assert f"`plm {command[0]} --help`" in said


# Where to write


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "export"])
def test_an_out_folder_that_holds_something_else(verb, refused, here, pretrained):
    (here / "out").mkdir()
    (here / "out" / "thesis.txt").write_text("years of work")
    commands = {
        "pretrain": train(here),
        "finetune": tune(pretrained, here),
        "export": ("export", pretrained, here / "out"),
    }
    assert ("left as it is" if verb == "export" else "nothing was changed") in refused(*commands[verb])


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "export"])
def test_an_out_folder_that_is_a_file(verb, refused, here, pretrained):
    (here / "out").write_text("years of work")
    commands = {
        "pretrain": train(here),
        "finetune": tune(pretrained, here),
        "export": ("export", pretrained, here / "out"),
    }
    said = {
        "pretrain": f"plm: --out {here / 'out'} is a file. Give a folder for the run.\n",
        "finetune": f"plm: --out {here / 'out'} is a file. Give a folder for the run.\n",
        "export": f"plm: {here / 'out'} is a file and is left as it is. Name a new output folder.\n",
    }
    assert refused(*commands[verb]) == said[verb]


def test_an_out_folder_that_is_the_model_itself(refused, here, pretrained):
    said = refused("finetune", pretrained, "--task", "classify", "--train", here / "train.tsv", "--out", pretrained)
    assert "Name another folder" in said


@pytest.mark.parametrize("verb", ["pretrain", "finetune", "predict", "embed", "export", "demo"])
def test_a_folder_that_cannot_be_written(verb, refused, here, pretrained, finetuned):
    """Below a file no folder can be made, not even by root."""
    out = here / "train.tsv" / "below"
    commands = {
        "pretrain": ("pretrain", "bert-tiny", here / "corpus.txt", "--out", out, "--steps", 1),
        "finetune": ("finetune", pretrained, "--task", "classify", "--train", here / "train.tsv", "--out", out),
        "predict": ("predict", finetuned, here / "train.tsv", "--out", out / "answers.tsv"),
        "embed": ("embed", pretrained, here / "train.tsv", "--out", out / "v.npy"),
        "export": ("export", pretrained, out),
        "demo": ("demo", "--out", out),
    }
    assert "cannot be written" in refused(*commands[verb])


def test_a_command_without_out(refused, here, pretrained):
    assert "--out is missing" in refused("pretrain", "bert-tiny", here / "corpus.txt")
    assert "--out is missing" in refused("finetune", pretrained, "--task", "classify", "--train", here / "train.tsv")
    assert "--out is missing" in refused("embed", pretrained, here / "train.tsv")


def test_predictions_over_their_own_input(refused, here, finetuned):
    assert "is the input file" in refused("predict", finetuned, here / "train.tsv", "--out", here / "train.tsv")


def test_an_output_of_an_unknown_kind(refused, here, pretrained, finetuned):
    assert ".tsv, .csv, .jsonl" in refused("predict", finetuned, here / "train.tsv", "--out", here / "answers.xlsx")
    assert ".npy" in refused("embed", pretrained, here / "train.tsv", "--out", here / "vectors.txt")
    assert "sentence or token" in refused(
        "embed", pretrained, here / "train.tsv", "--out", here / "v.npy", "--level", "word"
    )


# Models


@pytest.fixture
def copy(here, finetuned) -> Path:
    return Path(shutil.copytree(finetuned, here / "model"))


def test_a_model_that_is_not_there(refused, here):
    assert f"There is no folder '{here / 'run'}'. Give a run folder" in refused("fill", here / "run", "a [MASK]")


@pytest.mark.parametrize(
    "typed, says", [("runs/brt", "'runs/brt'. Did you mean 'runs/bert'?"), ("run/bert", "'run'. Did you mean 'runs'?")]
)
def test_a_slip_in_the_name_of_a_model(typed, says, refused, here, monkeypatch):
    (here / "runs/bert").mkdir(parents=True)
    monkeypatch.chdir(here)
    assert f"There is no folder {says}" in refused("fill", typed, "a [MASK]")
    assert f"There is no folder {says}" in refused("import", typed, "--out", "out")
    assert f"There is no file or folder {says}" in refused(*train(here, "--tokenizer", typed))


def test_where_a_folder_is_due_no_file_is_suggested(refused, here, monkeypatch):
    (here / "imp.txt").write_text("a file")
    monkeypatch.chdir(here)
    for said in (refused("generate", "imp", "x"), refused("generate", "imp/run", "x")):
        assert "There is no folder 'imp" in said
        assert "Did you mean" not in said
    (here / "import").mkdir()
    assert "There is no folder 'imp'. Did you mean 'import'?" in refused("generate", "imp", "x")


def test_a_file_where_the_model_should_be(refused, here, finetuned):
    assert "is a file. The first argument is a model" in refused("fill", here / "train.tsv", "a [MASK]")
    assert "The first argument is a model: a run folder" in refused("evaluate", here / "train.tsv", finetuned)


def test_a_folder_that_is_no_model(refused, here):
    assert "is not a model" in refused("fill", here, "a [MASK]")


@pytest.mark.parametrize("kept", [0, 7, 200, -1], ids=["nothing", "a few bytes", "a header", "all but one byte"])
def test_weights_that_are_cut_short(kept, refused, here, copy):
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content[:kept])
    size, left = len(content), len(content[:kept])
    says = f"{copy / 'model.safetensors'} was changed after it was written: it has {left:,} bytes, not {size:,}.\n"
    assert says in refused("predict", copy, here / "train.tsv")


def test_weights_with_a_single_changed_bit(refused, here, copy):
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-100] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    changed = f"{copy / 'model.safetensors'} was changed after it was written: its SHA-256 differs."
    assert changed in refused("predict", copy, here / "train.tsv")
    unseal(copy)
    assert "is damaged: its checksum differs from the one in run.json" in refused("predict", copy, here / "train.tsv")


def test_weights_of_another_model(refused, here, copy, pretrained):
    shutil.copy(pretrained / "model.safetensors", copy / "model.safetensors")
    weights = copy / "model.safetensors"
    assert refused("predict", copy, here / "train.tsv").startswith(f"plm: {weights} was changed after it was written: ")
    unseal(copy)
    said = refused("predict", copy, here / "train.tsv")
    assert said.startswith(f"plm: {weights} is damaged: its checksum differs from the one in run.json.\n")


def test_weights_that_are_missing(refused, here, copy):
    (copy / "model.safetensors").unlink()
    says = f"The run in {copy} is finished, but its weights (model.safetensors) are missing.\nCopy them again from "
    assert says in refused("predict", copy, here / "train.tsv")


def test_a_tokenizer_that_is_missing(refused, here, copy):
    for name in ("tokenizer.json", "vocab.txt"):
        (copy / name).unlink()
    assert f"plm: {copy / 'tokenizer.json'} is missing.\n" in refused("predict", copy, here / "train.tsv")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot be read as JSON: Expecting property name"),
        ("[]", "contains a list of 0, not a JSON object of settings.\n"),
        ('{"format": 1}', "was written by another version of plmkit, or does not describe a run.\n"),
        ('{"format": 1, "kind": "finetune", "state": "finished"}', "is damaged ('seed'). Copy the folder again.\n"),
    ],
)
def test_a_run_file_that_is_damaged(content, says, refused, here, copy):
    (copy / "run.json").write_text(content)
    assert "run.json was changed after it was written" in refused("predict", copy, here / "train.tsv")
    unseal(copy)
    assert f"plm: {copy / 'run.json'} {says}" in refused("predict", copy, here / "train.tsv")


def test_a_run_that_is_not_finished(refused, here, copy):
    about = json.loads((copy / "run.json").read_text())
    del about["checksum"]  # written when a run is finished
    (copy / "run.json").write_text(json.dumps({**about, "state": "unfinished"}))
    unseal(copy)
    assert "is not finished" in refused("predict", copy, here / "train.tsv")


def test_a_pretrained_model_asked_to_predict(refused, here, pretrained):
    assert "Fine-tune it first" in refused("predict", pretrained, here / "train.tsv")
    assert "Fine-tune it first" in refused("evaluate", pretrained, here / "train.tsv")


def test_a_fine_tuned_model_asked_to_fill(refused, finetuned):
    assert "Use a pretrained masked language model" in refused("fill", finetuned, "a [MASK]")


def test_a_start_that_is_another_network(refused, here, pretrained, tiny_settings):
    """Wider, or merely with other heads: its weights would not mean what they meant."""
    said = refused(*train(here, "--from", pretrained))
    assert "differs from the recipe's: architecture.width is 32, not 128" in said
    assert "--set architecture.width=32" in said
    shape = [part for part in tiny_settings if part != "--set" and not part.startswith("tokenizer.")]
    settings = [part for setting in (*shape, "architecture.heads=4") for part in ("--set", setting)]
    said = refused(*train(here, "--from", pretrained, *settings))
    assert "architecture.heads is 2, not 4" in said


# Corpora


def test_a_corpus_without_sentence_pairs(refused, here):
    (here / "corpus.txt").write_text("\n\nOne.\n\nTwo.\n\nThree.\n")
    for recipe, so, take in (
        ("bert-tiny", "no sentence follows another", "treat each file, if there are several,"),
        ("albert-mini", "there is no order to learn", "treat a whole file"),
    ):
        said = refused(*train(here, "--set", "run.layout=blank-lines", recipe=recipe))
        assert f"{here / 'corpus.txt'}, line 3: none of the " in said
        assert f" documents has two sentences, so {so}. The first begins here.\n" in said
        assert said.endswith(
            "Train without pairs: --set sentence_task=none. Or, in plain text, put each sentence on its own line, with "
            f"blank lines only between documents (run.layout=blank-lines), or {take} as one document "
            "(run.layout=document-per-file).\n"
        )


def test_a_corpus_that_is_a_table_without_a_text_column(refused, here):
    (here / "corpus.csv").write_text("a,b\n1,2\n")
    says = f"plm: {here / 'corpus.csv'} has no column text. Columns found: a, b.\nChoose the right one: --text COLUMN."
    assert says in refused("doctor", here / "corpus.csv")


def test_a_pattern_that_matches_nothing(refused, here):
    pattern = here / "*.parquet"
    assert refused("doctor", str(pattern)) == f"plm: No file matches '{pattern}'.\n"


def test_an_empty_folder(refused, here):
    (here / "texts").mkdir()
    says = f"plm: {here / 'texts'} contains no readable file. Readable: .txt "
    assert says in refused("doctor", here / "texts")


# What newcomers do


def test_two_budgets_at_once(refused, here):
    assert "A run has one budget; found --minutes and --steps" in refused(*train(here, "--minutes", 1))


@pytest.mark.parametrize("budget", [("--steps", "-3"), ("--steps", "0"), ("--minutes", "-1"), ("--minutes", "nan"),
                                    ("--minutes", "inf"), ("--tokens", "-1e6"), ("--tokens", "inf")])  # fmt: skip
def test_a_budget_that_cannot_be(budget, refused, here):
    said = refused("pretrain", "bert-tiny", here / "corpus.txt", "--out", here / "out", *budget)
    assert f"{budget[0]} must be a finite number above 0" in said


@pytest.mark.parametrize("option", [("--steps", "many"), ("--steps", "1.5"), ("--seed", "x"), ("--minutes", "ten")])
def test_an_option_of_the_wrong_type(option, refused, here):
    said = refused("pretrain", "bert-tiny", here / "corpus.txt", "--out", here / "out", *option)
    assert f"Invalid value for '{option[0]}'" in said


@pytest.mark.parametrize("top", ["0", "-1", "few"])
def test_a_number_of_candidates_that_cannot_be(top, refused, pretrained):
    assert "Invalid value for '--top'" in refused("fill", pretrained, "a [MASK]", "--top", top)


@pytest.mark.parametrize("epochs", ["0", "-1", "nan", "inf"])
def test_a_number_of_epochs_that_cannot_be(epochs, refused, here, pretrained):
    assert "task.epochs must be a finite number above 0" in refused(*tune(pretrained, here, "--epochs", epochs))


def test_no_seeds(refused, here, pretrained):
    assert "Invalid value for '--seeds'" in refused(*tune(pretrained, here, "--seeds", 0))


def test_corpus_and_recipe_exchanged(refused, here):
    said = refused("pretrain", here / "corpus.txt", "bert-tiny", "--out", here / "out")
    assert "There is no recipe" in said


def test_a_recipe_where_a_model_is_due(refused, here, monkeypatch):
    monkeypatch.chdir(here)
    said = refused("finetune", "bert-base", "--task", "classify", "--train", "train.tsv", "--out", "out")
    assert (
        "There is no folder 'bert-base'. It is the name of a recipe: train a model with `plm pretrain bert-base" in said
    )


def test_a_table_of_labelled_rows_where_documents_are_due(refused, here):
    """Each row is a document of one sentence."""
    rows = ["text\tlabel", *(f"the cat sees house {number}.\tgood" for number in range(9))]
    (here / "rows.tsv").write_text("\n".join(rows) + "\n")
    said = refused("pretrain", "bert-tiny", here / "rows.tsv", "--out", here / "out", "--steps", 1)
    assert (
        f"{here / 'rows.tsv'}, line 2: none of the 8 documents has two sentences, so no sentence follows another."
        in said
    )
    assert (
        "\nTrain without pairs: --set sentence_task=none. Or, in plain text, " in said
    )  # a table has no lines to move


def test_a_folder_as_train_file(refused, here, pretrained):
    (here / "rows").mkdir()
    assert "is a folder" in refused(*tune(pretrained, here, train="rows"))


def test_json_given_as_jsonl(refused, here, pretrained):
    (here / "train.jsonl").write_text('[\n{"text": "a", "label": "b"}\n]\n')
    assert "train.jsonl, line 1: not JSON" in refused(*tune(pretrained, here, train="train.jsonl"))


def test_commas_in_a_tsv(refused, here, pretrained):
    (here / "train.tsv").write_text("text,label\nthe cat,good\n")
    assert "Is the separator right?" in refused(*tune(pretrained, here))


def test_a_network_that_no_memory_holds(refused, here):
    huge = ("architecture.width=200000", "architecture.heads=10", "architecture.inner=800000")
    said = refused(*train(here, *(part for setting in huge for part in ("--set", setting))))
    assert "weights: they, their gradients and the optimizer need" in said
    assert "Lower architecture.layers or architecture.width" in said
