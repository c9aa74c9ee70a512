"""Defaults of fine-tuning, and settings that a network does not support."""

import json
from dataclasses import replace

import pytest
import torch

from plmkit.architectures.features import Features
from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.two_stream import TwoStream
from plmkit.catalogue import CATALOGUE, find
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts, read_parts
from plmkit.network import Network
from plmkit.schedules.optimizers import AdamW, BertAdam
from plmkit.schedules.schedule import Tuning
from plmkit.tasks.heads import ClassHead
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.seed_run import build, optimizer_of
from plmkit.tasks.settings import Settled, TaskSettings, settle_task
from plmkit.tokenizers.tokenizer import load_tokenizer


def settled(name: str, **settings) -> Settled:
    recipe = find(name)
    return TaskSettings(**settings).settled(recipe.architecture, recipe.tuning)


@pytest.mark.parametrize(
    ("name", "rate", "warmup", "lm_weight"),
    [
        ("bert-base", 3e-5, 0.1, 0.0),
        ("bert-tiny", 5e-4, 0.1, 0.0),
        ("xlnet-base", 2e-5, 0.1, 0.0),
        ("gpt1", 6.25e-5, 0.002, 0.5),
        ("gpt2-small", 6.25e-5, 0.002, 0.5),
        ("lstm-tiny", 5e-4, 0.1, 0.5),
    ],
)
def test_defaults_depend_on_the_network(name, rate, warmup, lm_weight):
    found = settled(name)
    assert found.learning_rate == pytest.approx(rate)
    assert (found.warmup, found.lm_weight) == (warmup, lm_weight)


def test_narrow_decoders_get_higher_learning_rates_too():
    architecture = replace(find("gpt1").architecture, width=384, heads=6, inner=1536)
    assert TaskSettings().settled(architecture, find("gpt1").tuning).learning_rate == pytest.approx(2.5e-4)


def test_given_settings_are_kept():
    found = settled("gpt1", learning_rate=1e-4, warmup=0.0, lm_weight=0.0)
    assert (found.learning_rate, found.warmup, found.lm_weight) == (1e-4, 0.0, 0.0)


@pytest.mark.parametrize("name", ["transformer-xl-tiny", "xlnet-tiny", "char-transformer-tiny", "bert-tiny"])
def test_a_language_model_loss_is_refused_without_a_tied_head(name):
    with pytest.raises(SettingError, match=r"Leave task\.lm_weight out"):
        settled(name, lm_weight=0.5)
    assert settled(name, lm_weight=0.0).lm_weight == 0


def test_a_language_model_is_not_trained_in_a_frozen_network():
    with pytest.raises(SettingError, match="does not train the language model"):
        TaskSettings(frozen=True, lm_weight=0.5)
    assert settled("gpt1", frozen=True).lm_weight == 0


def test_a_language_model_is_not_trained_below_a_network_on_features():
    with pytest.raises(SettingError, match=r"task\.features trains a network above the language model"):
        settled("gpt1", features=Features(), lm_weight=0.5)
    assert settled("gpt1", features=Features(), lm_weight=0.0).lm_weight == 0
    assert settled("gpt1", features=Features(place="none"), lm_weight=0.5).lm_weight == 0.5


def test_the_command_refuses_it_and_writes_nothing(pretrained, plm, rows_file, tmp_path):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "task",
              "--set", "task.lm_weight=0.3")  # fmt: skip
    assert (ran.code, "; Encoder has none" in ran.err, (tmp_path / "task").exists()) == (2, True, False)


def peaks_of(architecture, decay: float) -> dict[str, float]:
    """The peak learning rate of each parameter, where the base is 1."""
    with torch.device("meta"):
        model = architecture.build(unnamed(9))
        head = ClassHead(width=architecture.width, outputs=2, pooling="first", length=8)
        network = Network(model, {"label": head}, {"label": 1.0})
    settings = TaskSettings(layer_decay=decay, learning_rate=1.0).settled(architecture)
    optimizer = optimizer_of(network, settings)
    names = {id(weight): name for name, weight in network.named_parameters()}
    return {names[id(weight)]: group["peak"] for group in optimizer.param_groups for weight in group["params"]}


def test_layer_decay_of_xlnet_is_1_at_the_last_layer_and_to_the_23rd_at_the_first_of_24():
    peaks = peaks_of(TwoStream(layers=24, heads=1, width=4, inner=4, pooler=True), 0.75)
    for layer in range(24):
        mine = {peak for name, peak in peaks.items() if name.startswith(f"model.blocks.{layer}.")}
        assert mine == {0.75 ** (23 - layer)}
    assert peaks["model.blocks.0.feed_forward.expand.weight"] == pytest.approx(0.001338, abs=1e-6)
    assert peaks["model.blocks.23.feed_forward.expand.weight"] == 1
    assert {peak for name, peak in peaks.items() if not name.startswith("model.blocks.")} == {1}


def test_lower_layers_of_an_lstm_have_lower_learning_rates():
    peaks = peaks_of(Recurrent(layers=3, width=4), 0.5)
    for layer, factor in enumerate((0.0625, 0.125, 0.25)):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            assert peaks[f"model.cells.{name}_l{layer}"] == factor
    assert peaks["model.embed.tokens.weight"] == 0.03125
    assert peaks["heads.label.classify.weight"] == 1


# each family as its paper has it


BERT = BertAdam(epsilon=1e-6, decay=0.01)
ROBERTA = AdamW(beta2=0.98, epsilon=1e-6, decay=0.1)
FAMILIES = {  # rate at this width, warm-up, shape, optimizer, clip, layer decay
    "bert-base": (3e-5, 0.1, "linear_over_all", BERT, 1.0, 1.0),
    "bert-wwm-base": (3e-5, 0.1, "linear_over_all", BERT, 1.0, 1.0),
    "spanbert-base": (2e-5, 0.1, "linear_over_all", BERT, 1.0, 1.0),
    "ernie-1.0": (5e-5, 0.1, "linear_over_all", AdamW(), 1.0, 1.0),
    "albert-base": (3e-5, 0.1, "linear_over_all", BERT, 1.0, 1.0),
    "roberta-base": (3e-5, 0.06, "linear_to_zero", ROBERTA, 0.0, 1.0),
    "electra-base": (1e-4, 0.1, "linear_product", BERT, 1.0, 0.8),
    "electra-large": (5.625e-5, 0.1, "linear_product", BERT, 1.0, 0.9),
    "xlnet-base": (2e-5, 0.1, "linear_after_warmup", BERT, 1.0, 1.0),
    "gpt1": (6.25e-5, 0.002, "linear_product", AdamW(decay=0.01), 1.0, 1.0),
    "gpt2-small": (6.25e-5, 0.002, "linear_product", AdamW(decay=0.01), 1.0, 1.0),
    "gpt3-125m": (6.25e-5, 0.002, "linear_product", AdamW(decay=0.01), 1.0, 1.0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_fine_tuned_as_in_its_paper(name):
    rate, *others = FAMILIES[name]
    found = settled(name)
    assert found.learning_rate == pytest.approx(rate)
    assert [found.warmup, found.shape, found.optimizer, found.clip, found.layer_decay] == others
    assert found.decay == found.optimizer.decay


def test_every_default_can_be_set():
    given = [
        "task.learning_rate=1e-3", "task.warmup=0.2", "task.shape=cosine", "task.optimizer=AdamW",
        "task.optimizer.beta2=0.9", "task.clip=2", "task.layer_decay=0.5",
    ]  # fmt: skip
    found = settle_task(given, None)[0].settled(find("electra-base").architecture, find("electra-base").tuning)
    assert (found.learning_rate, found.warmup, found.shape) == (1e-3, 0.2, "cosine")
    assert (found.clip, found.layer_decay) == (2.0, 0.5)
    assert found.optimizer == AdamW(beta2=0.9)


def test_the_weight_decay_alone_can_be_set():
    assert settled("roberta-base", decay=0.02).optimizer == replace(ROBERTA, decay=0.02)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["task.shape=steep"], "task.shape takes linear_over_all, "),
        (
            ["task.optimizer=AdamW", "task.optimizer.beta1=1"],
            "task.optimizer.beta1 must be at least 0 and below 1; found 1.0.",
        ),
        (
            ["task.optimizer=AdamW", "task.decay=0.3"],
            "task.decay=0.3 and task.optimizer.decay=0.01 are the same setting.",
        ),
        (["task.optimizer=Lamb"], "'task.optimizer' takes one of AdamW, BertAdam, Adamax, or none; found 'Lamb'."),
    ],
)
def test_an_invalid_optimizer_or_shape_is_refused(settings, says):
    with pytest.raises(SettingError) as refused:
        settle_task(settings, None)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize("setting", ["compile=true", "reader_workers=1", "checkpoint_steps=1", "validations=1",
                                     "valid_share=0.1", "layout=lines", "column=a", "weights=[1.0]"])  # fmt: skip
def test_settings_of_the_machine_that_fine_tuning_would_ignore_are_refused(
    setting, pretrained, plm, rows_file, tmp_path
):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "task",
              "--set", f"run.{setting}")  # fmt: skip
    assert (ran.code, ran.out, ran.err) == (
        2, "",
        f"plm: run.{setting.partition('=')[0]} has no effect on plm finetune, which uses run.device, run.dtype, "
        "run.threads, run.micro_batch, run.log_steps. Leave it out.\n",
    )  # fmt: skip
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize("setting", ["threads=1", "device=cpu", "dtype=float32", "micro_batch=1", "compile=true",
                                     "checkpoint_steps=1", "log_steps=1", "validations=1"])  # fmt: skip
def test_settings_of_the_machine_that_the_doctor_would_ignore_are_refused(setting, mixed_corpus, plm):
    ran = plm("doctor", mixed_corpus, "--set", f"run.{setting}")
    assert (ran.code, ran.out, ran.err) == (
        2, "",
        f"plm: run.{setting.partition('=')[0]} has no effect on plm doctor, which uses run.reader_workers, "
        "run.valid_share, run.layout, run.column, run.image_column, run.image_folder, run.features, "
        "run.names, run.header, run.weights. Leave it out.\n",
    )  # fmt: skip


@pytest.mark.parametrize(("width", "kind"), [(768, BertAdam), (1024, BertAdam), (256, AdamW)])
def test_narrow_networks_train_at_higher_rates_and_with_bias_correction(width, kind):
    """Without it, seeds of bert-mini stay at chance."""
    architecture = replace(find("bert-base").architecture, width=width, heads=4)
    settled = TaskSettings(decay=0.1).settled(architecture, Tuning(optimizer=BertAdam(beta2=0.98)))
    assert settled.optimizer == kind(beta2=0.98, epsilon=1e-6, decay=0.1)
    named = TaskSettings(optimizer=BertAdam()).settled(architecture)
    assert named.optimizer == BertAdam()


def test_the_run_records_how_it_was_fine_tuned(finetuned):
    about = json.loads((finetuned / "run.json").read_text())
    task = about["task"]
    assert (task["shape"], task["warmup"], task["clip"], task["layer_decay"]) == ("linear_over_all", 0.1, 1.0, 1.0)
    assert task["optimizer"] == {"kind": "AdamW", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-06, "decay": 0.01}
    assert read_parts(finetuned).tuning == find("bert-base").tuning


def test_an_imported_model_is_fine_tuned_as_its_family(hub_folder, made):
    from transformers import RobertaConfig, RobertaModel

    folder = made / "hub roberta"
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    RobertaModel(RobertaConfig(**shape, vocab_size=300, max_position_embeddings=34)).save_pretrained(folder)
    tokenizer = load_tokenizer(hub_folder)
    tokenizer.save(folder)
    parts = read_parts(folder)
    assert parts.tuning == find("roberta-base").tuning
    assert (parts.architecture.initialiser, parts.architecture.pooler_dropout) == ("normal", 0.1)
    assert read_parts(hub_folder).tuning == find("bert-base").tuning


# heads


def shares_dropped(name: str) -> dict[str, float]:
    """Dropout before the dense layer of the first position, and before the last layer."""
    architecture = find(name).architecture.for_task(0.5)
    small = replace(architecture, layers=1, heads=1, width=8, inner=8, dropout=0.0, attention_dropout=0.0)
    task = Classify(classes=("a", "b"), length=8)
    model, head = small.build(unnamed(9)), task.head(small, 0.5)
    assert model.pooler is not None
    with torch.no_grad():
        model.pooler.weight.copy_(torch.eye(8))
    torch.manual_seed(0)
    first = torch.ones(4000, 8)
    pooled = model.pool(first)
    return {
        "before": float((pooled.detach() == 0).float().mean()),
        "after": float((head.dropout(torch.ones(4000, 8)) == 0).float().mean()),
    }


@pytest.mark.parametrize(("name", "before"), [("roberta-base", 0.5), ("electra-base", 0.5), ("bert-base", 0.0)])
def test_heads_of_roberta_and_electra_have_dropout_before_their_first_layer_too(name, before):
    """Dropout, dense, activation, dropout, out (Liu et al., 2019, the released code); BERT's starts dense."""
    assert shares_dropped(name) == {"before": pytest.approx(before, abs=0.02), "after": pytest.approx(0.5, abs=0.02)}


@pytest.mark.parametrize(
    ("name", "truncated"), [("bert-base", True), ("electra-base", True), ("roberta-base", False), ("gpt1", False),
                            ("xlnet-base", False)],
)  # fmt: skip
def test_a_head_is_initialised_like_its_network(name, truncated):
    """Normal with standard deviation 0.02, truncated at two in BERT's code and not in RoBERTa's."""
    architecture = find(name).architecture.for_task(0.1)
    classes = tuple(map(str, range(20)))
    torch.manual_seed(0)
    head = Classify(classes=classes, length=8).head(architecture)
    weights = head.classify.weight.detach()  # 15,360 draws, of which a normal has 700 beyond
    assert bool((weights.abs() <= 0.04).all()) is truncated
    assert float(weights.std()) == pytest.approx(0.0176 if truncated else 0.02, rel=0.05)


def test_roberta_is_initialised_from_an_untruncated_normal():
    small = replace(find("roberta-base").architecture, layers=1, heads=1, width=64, inner=64, max_length=8)
    torch.manual_seed(0)
    tables = [
        replace(small, initialiser=how).build(unnamed(200)).embed.tokens.weight for how in ("normal", "truncated")
    ]
    assert small.initialiser == "normal"
    assert [bool((table.abs() > 0.04).any()) for table in tables] == [True, False]


# what to write instead


def test_a_run_that_diverges_names_the_setting_of_fine_tuning(pretrained, plm, rows_file, tmp_path):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "task",
              "--set", "task.learning_rate=1e30", "--set", "task.warmup=0", "--set", "task.batch=8")  # fmt: skip
    assert ran.code == 2
    assert ran.err.endswith(
        "Lower the learning rate (--set task.learning_rate=...) and run the same command with a new folder.\n"
    )
    assert "schedule.learning_rate" not in ran.err


@pytest.mark.parametrize(
    ("option", "here"),
    [
        ("--batch-size", "--set task.batch=VALUE"),
        ("--lr", "--set task.learning_rate=VALUE"),
        ("--learning-rate", "--set task.learning_rate=VALUE"),
        ("--max-seq-length", "--set task.length=VALUE"),
        ("--weight_decay", "--set task.decay=VALUE"),
        ("--dropout", "--set task.dropout=VALUE"),
        ("--threads", "--set run.threads=VALUE"),
        ("--num-train-epochs", "--epochs"),
        ("--output-dir", "--out"),
    ],
)
def test_options_of_other_tools_are_answered_with_ours(option, here, plm, rows_file, tmp_path):
    ran = plm(
        "finetune", "a model", "--task", "classify", "--train", rows_file, "--out", tmp_path / "task", option, "8"
    )
    assert (ran.code, ran.out, ran.err) == (
        2, "",
        f"plm: No such option: {option}. In plm it is {here}.\n`plm finetune --help` lists its options.\n",
    )  # fmt: skip
    assert not (tmp_path / "task").exists()


def test_pretraining_has_other_names_for_them(plm):
    ran = plm("pretrain", "bert-mini", "--batch-size", "8")
    assert ran.err.startswith("plm: No such option: --batch-size. In plm it is --set schedule.batch=VALUE.\n")


def test_an_unknown_option_is_not_explained(plm, rows_file):
    ran = plm("finetune", "a model", "--task", "classify", "--train", rows_file, "--class-weights", "8")
    assert (ran.code, ran.err) == (
        2, "plm: No such option: --class-weights\n`plm finetune --help` lists its options.\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "asked", "inside", "before_head"),
    [
        ("bert-base", {}, 0.1, 0.1),
        ("albert-base", {}, 0.0, 0.1),
        ("albert-base", {"dropout": 0.2}, 0.2, 0.2),
        ("albert-base", {"head_dropout": 0.3}, 0.0, 0.3),
        ("bert-base", {"dropout": 0.2, "head_dropout": 0.0}, 0.2, 0.0),
    ],
)
def test_albert_has_dropout_before_its_head_only(name, asked, inside, before_head, hub_folder):
    """Lan et al. (2019), table 14; a rate that is given holds for both, unless the head has its own."""
    recipe = find(name)
    found = TaskSettings(**asked, scratch=True).settled(recipe.architecture, recipe.tuning)
    small = replace(recipe.architecture, layers=1, heads=1, width=8, inner=8)
    parts = Parts(folder=hub_folder, architecture=small, tokenizer=load_tokenizer(hub_folder), weights={})
    network = build(found, parts, [Classify(classes=("a", "b"), length=8)], seed=0)
    assert network.heads["classify"].dropout.share == before_head
    assert network.model.settings.dropout == network.model.settings.attention_dropout == inside


def test_a_name_unlike_all_others_is_answered_with_the_list():
    with pytest.raises(SettingError) as refused:
        settle_task(["task.class_weights=[1,2]"], None)
    assert str(refused.value) == (
        "There is no setting 'task.class_weights'. Known: task.batch, task.clip, task.decay, task.dev_share, "
        "task.dropout, task.epochs, task.evaluations, task.features, task.frozen, task.head_dropout, task.layer_decay, "
        "task.learning_rate, task.length, task.lm_weight, task.ngrams, task.optimizer, task.patience, task.pooling, "
        "task.scratch, task.shape, task.task_embedding, task.train_share, task.warmup."
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("lr", "learning_rate"), ("batch_size", "batch"), ("lm_weigt", "lm_weight")]
)
def test_a_misspelt_name_or_one_of_another_tool_is_answered_with_ours(name, meant):
    with pytest.raises(SettingError, match=rf"^There is no setting 'task\.{name}'. Did you mean 'task\.{meant}'\?$"):
        settle_task([f"task.{name}=1"], None)


def shown_of(name: str, plm) -> list[str]:
    """The settings of a task in `plm recipes NAME`."""
    return [line.split()[0] for line in plm("recipes", name).out.splitlines() if line.startswith("  task.")]


@pytest.mark.parametrize("name", CATALOGUE)
def test_recipes_show_how_their_models_are_fine_tuned_as_set_takes_it(name, plm):
    found = settle_task(shown_of(name, plm), None)[0]
    assert vars(found) == vars(settled(name))


def test_a_narrow_network_is_shown_with_its_own_learning_rate_and_optimizer(plm):
    """BERT's 3e-5 and its Adam are for a width of 768."""
    assert {"task.learning_rate=0.00027", "task.optimizer=AdamW"} <= set(shown_of("bert-mini", plm))
    assert {"task.learning_rate=3e-05", "task.optimizer=BertAdam"} <= set(shown_of("bert-base", plm))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lr", "task.learning_rate"), ("batch_size", "task.batch"), ("num_train_epochs", "task.epochs"),
        ("epochs", "task.epochs"), ("max_length", "task.length"), ("weight_decay", "task.decay"),
        ("warmup_ratio", "task.warmup"),
        ("logging_steps", "run.log_steps"),
    ],
)  # fmt: skip
def test_a_name_of_another_tool_without_its_group_is_understood(name, meant):
    with pytest.raises(SettingError, match=rf"^There is no setting '{name}'\. Did you mean '{meant}'\? Settings of"):
        settle_task([f"{name}=1"], None)
