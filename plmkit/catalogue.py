"""The one table: name to recipe."""

from collections.abc import Callable

from plmkit.errors import RecipeError, nearest
from plmkit.language import tr
from plmkit.recipe import Recipe
from plmkit.recipes.foundations import (
    bert,
    char_transformer,
    elmo,
    gpt1,
    gpt2,
    lstm,
    transformer,
    transformer_xl,
    xlnet,
)
from plmkit.recipes.knowledge import ernie
from plmkit.recipes.masking import electra, roberta, spanbert, wwm
from plmkit.recipes.scaling import albert, gpt3

CATALOGUE: dict[str, Callable[[], Recipe]] = {
    "bert-tiny": bert.bert_tiny,
    "bert-mini": bert.bert_mini,
    "bert-small": bert.bert_small,
    "bert-medium": bert.bert_medium,
    "bert-base": bert.bert_base,
    "bert-large": bert.bert_large,
    "bert-base-cased": bert.bert_base_cased,
    "bert-large-cased": bert.bert_large_cased,
    "bert-base-chinese": bert.bert_base_chinese,
    "bert-wwm-mini": wwm.bert_wwm_mini,
    "bert-wwm-base": wwm.bert_wwm_base,
    "bert-wwm-chinese": wwm.bert_wwm_chinese,
    "spanbert-mini": spanbert.spanbert_mini,
    "spanbert-base": spanbert.spanbert_base,
    "spanbert-large": spanbert.spanbert_large,
    "ernie-mini": ernie.ernie_mini,
    "ernie-1.0": ernie.ernie,
    "roberta-tiny": roberta.roberta_tiny,
    "roberta-mini": roberta.roberta_mini,
    "roberta-base": roberta.roberta_base,
    "roberta-large": roberta.roberta_large,
    "albert-tiny": albert.albert_tiny,
    "albert-mini": albert.albert_mini,
    "albert-base": albert.albert_base,
    "albert-large": albert.albert_large,
    "albert-xlarge": albert.albert_xlarge,
    "albert-xxlarge": albert.albert_xxlarge,
    "electra-tiny": electra.electra_tiny,
    "electra-tiny-adversarial": electra.electra_tiny_adversarial,
    "electra-tiny-weighted": electra.electra_tiny_weighted,
    "electra-mini": electra.electra_mini,
    "electra-small": electra.electra_small,
    "electra-base": electra.electra_base,
    "electra-large": electra.electra_large,
    "gpt1-tiny": gpt1.gpt1_tiny,
    "gpt1-mini": gpt1.gpt1_mini,
    "gpt1": gpt1.gpt1,
    "gpt2-tiny": gpt2.gpt2_tiny,
    "gpt2-mini": gpt2.gpt2_mini,
    "gpt2-small": gpt2.gpt2_small,
    "gpt2-medium": gpt2.gpt2_medium,
    "gpt2-large": gpt2.gpt2_large,
    "gpt2-xl": gpt2.gpt2_xl,
    "gpt3-tiny": gpt3.gpt3_tiny,
    "gpt3-mini": gpt3.gpt3_mini,
    "gpt3-125m": gpt3.gpt3_125m,
    "gpt3-350m": gpt3.gpt3_350m,
    "gpt3-760m": gpt3.gpt3_760m,
    "gpt3-1.3b": gpt3.gpt3_1_3b,
    "gpt3-2.7b": gpt3.gpt3_2_7b,
    "gpt3-6.7b": gpt3.gpt3_6_7b,
    "gpt3-13b": gpt3.gpt3_13b,
    "gpt3-175b": gpt3.gpt3_175b,
    "transformer-tiny": transformer.transformer_tiny,
    "transformer-mini": transformer.transformer_mini,
    "transformer-base": transformer.transformer_base,
    "transformer-big": transformer.transformer_big,
    "transformer-xl-tiny": transformer_xl.transformer_xl_tiny,
    "transformer-xl-mini": transformer_xl.transformer_xl_mini,
    "transformer-xl-enwik8": transformer_xl.transformer_xl_enwik8,
    "transformer-xl-enwik8-large": transformer_xl.transformer_xl_enwik8_large,
    "transformer-xl-text8": transformer_xl.transformer_xl_text8,
    "transformer-xl-text8-large": transformer_xl.transformer_xl_text8_large,
    "transformer-xl-wt103": transformer_xl.transformer_xl_wt103,
    "transformer-xl-wt103-large": transformer_xl.transformer_xl_wt103_large,
    "transformer-xl-lm1b": transformer_xl.transformer_xl_lm1b,
    "char-transformer-tiny": char_transformer.char_transformer_tiny,
    "char-transformer-mini": char_transformer.char_transformer_mini,
    "char-transformer-12l": char_transformer.char_transformer_12l,
    "char-transformer-64l": char_transformer.char_transformer_64l,
    "lstm-tiny": lstm.lstm_tiny,
    "lstm-mini": lstm.lstm_mini,
    "lstm-medium": lstm.lstm_medium,
    "lstm-large": lstm.lstm_large,
    "elmo-tiny": elmo.elmo_tiny,
    "elmo-mini": elmo.elmo_mini,
    "elmo-original": elmo.elmo_original,
    "xlnet-tiny": xlnet.xlnet_tiny,
    "xlnet-mini": xlnet.xlnet_mini,
    "xlnet-base": xlnet.xlnet_base,
    "xlnet-large": xlnet.xlnet_large,
}


def find(name: str) -> Recipe:
    if name not in CATALOGUE:
        raise RecipeError(
            tr("There is no recipe '{name}'.{hint} `plm recipes` lists them.", name=name, hint=nearest(name, CATALOGUE))
        )
    return CATALOGUE[name]()
