"""`--from` a BERT: its encoder, with its tokenizer, becomes the encoder of a Transformer that translates."""

import json

import torch
from safetensors.torch import load_file

import plmkit
from plmkit.architectures.bert_encoder_decoder import BertEncoderDecoder
from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed

SHAPE = ("architecture.layers=2", "architecture.heads=2", "architecture.width=32", "architecture.inner=64")
SMALL = (*SHAPE, "stages=[[1.0, 24]]", "run.threads=1", "schedule.batch=8", "run.log_steps=10")


def command(pairs, start, out, *more, small=SMALL):
    sets = [part for setting in (*small, *more) for part in ("--set", setting)]
    return ["pretrain", "transformer-tiny", pairs, "--from", start, "--out", out, "--steps", 40, *sets]


def test_a_bert_run_initialises_the_encoder_and_trains(plm, pairs, pretrained, tmp_path):
    out = tmp_path / "run"
    ran = plm(*command(pairs, pretrained, out, "schedule.learning_rate=3e-3"))
    assert ran.code == 0, ran.err
    assert f"The encoder starts from {pretrained}; the decoder is initialised randomly." in ran.err
    losses = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    curve = [line["train/translation_lm"] for line in losses if "train/translation_lm" in line]
    assert curve[-1] < 0.9 * curve[0]
    assert (out / "tokenizer.json").read_text() == (pretrained / "tokenizer.json").read_text()
    again = plm(*command(pairs, pretrained, out, "schedule.learning_rate=3e-3"))
    assert (again.code, "holds a finished run" in again.err) == (0, True)
    vectors = plmkit.load(out, device="cpu").embed(["the cat sees a house."])
    assert vectors.shape == (1, 32)


def test_before_the_first_step_the_encoder_is_berts(pretrained):
    """Its states of a source are those of the BERT whose weights were copied."""
    weights = load_file(pretrained / "model.safetensors")
    settings = plmkit.load(pretrained, device="cpu").architecture
    size = len(weights["model.embed.tokens.weight"])
    assert type(settings) is Encoder
    bert = settings.build(unnamed(size)).eval()
    bert.load_state_dict({name.removeprefix("model."): weights[name] for name in weights if name.startswith("model.")})
    both = BertEncoderDecoder.on(settings, find("transformer-tiny").architecture).build(unnamed(size)).eval()
    own = both.state_dict()
    both.load_state_dict(own | {name: weight for name, weight in bert.state_dict().items() if name in own})
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    source = Side(tokens=tokens, visible=tokens > 0)
    with torch.no_grad():
        torch.testing.assert_close(both(Batch(source=source)).hidden, bert(Batch(source=source)).hidden)
        target = Side(tokens=torch.tensor([[5, 6]] * 2), visible=torch.ones(2, 2, dtype=torch.bool))
        assert both(Batch(source=source, target=target)).hidden.shape == (2, 2, 32)


def test_a_hugging_face_folder_does_the_same(plm, pairs, pretrained, tmp_path):
    hub = tmp_path / "hub"
    assert plm("export", pretrained, hub).code == 0
    ran = plm(*command(pairs, hub, tmp_path / "run"))
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["recipe"]["architecture"]["kind"] == "BertEncoderDecoder"


def test_another_shape_is_refused_with_the_settings_that_fit(plm, pairs, pretrained, tmp_path):
    ran = plm(*command(pairs, pretrained, tmp_path / "run", small=("stages=[[1.0, 24]]",)))
    assert ran.code == 2
    assert "has another shape than transformer-tiny: architecture.width is 32, not 128" in ran.err
    assert "--set architecture.width=32 --set architecture.inner=64" in ran.err
    assert not (tmp_path / "run").exists()


def test_settings_that_the_encoder_decides_are_refused(plm, pairs, pretrained, tmp_path):
    ran = plm(*command(pairs, pretrained, tmp_path / "run", "architecture.positions=halves"))
    assert (ran.code, "architecture.positions has no effect with --from" in ran.err) == (2, True)


def test_a_model_that_no_recipe_starts_from_is_refused(plm, pairs, pretrained, mixed_corpus, tmp_path):
    out = tmp_path / "run"
    assert plm(*command(pairs, pretrained, out)).code == 0
    ran = plm("pretrain", "bert-tiny", mixed_corpus, "--from", out, "--out", tmp_path / "other")
    assert ran.code == 2
    assert "has the architecture BertEncoderDecoder, which bert-tiny cannot start from." in ran.err
