"""`--from` a folder of another kind of network is refused before any text is read, with advice that works."""

import re
import shutil

import torch
from transformers import ElectraConfig, ElectraForPreTraining


def test_an_electra_discriminator_differs_from_the_pair_and_the_advice_works(
    pretrained, mixed_corpus, plm, tmp_path, own_cache
):
    torch.manual_seed(0)
    size = (pretrained / "vocab.txt").read_text(encoding="utf-8").count("\n")
    config = ElectraConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=40, embedding_size=8,
    )  # fmt: skip
    folder = tmp_path / "discriminator"
    ElectraForPreTraining(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pretrained / name, folder / name)
    out = tmp_path / "out"
    ran = plm("pretrain", "electra-tiny", tmp_path / "nowhere.txt", "--from", folder, "--out", out, "--steps", 2)
    assert (ran.code, out.exists(), list(own_cache.iterdir())) == (2, False, [])
    assert f"--from {folder} has the architecture Encoder, but electra-tiny trains GeneratorDiscriminator." in ran.err
    assert "architecture.kind" not in ran.err
    recipe = re.search(r"use the recipe (\S+) with", ran.err)[1]
    settings = re.findall(r"--set '?(\S+?=(?:\[.*\]|[^\s']+?))'?\.?(?=\s|$)", ran.err)
    assert len(settings) >= 5
    options = [part for setting in settings for part in ("--set", setting)]
    ran = plm("pretrain", recipe, mixed_corpus, "--from", folder, "--out", out, "--steps", 2, *options)
    assert ran.code == 0, ran.err
