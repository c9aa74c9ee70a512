"""Families of Hugging Face models: the one table of those that can be read and written."""

from plmkit.interop.families.decoders import GPT1, GPT2
from plmkit.interop.families.distilled import DistilBert
from plmkit.interop.families.encoders import Bert, Ernie, Roberta
from plmkit.interop.families.factorised import Albert, Electra
from plmkit.interop.families.family import Family
from plmkit.interop.families.permuted import XLNet
from plmkit.interop.families.visual import VisualBert

bert, roberta, ernie, albert, electra = Bert(), Roberta(), Ernie(), Albert(), Electra()
distilbert, visual_bert, xlnet, gpt2, openai_gpt = DistilBert(), VisualBert(), XLNet(), GPT2(), GPT1()
FAMILIES: tuple[Family, ...] = (  # an architecture is written by the first that can
    visual_bert, bert, distilbert, roberta, ernie, albert, electra, xlnet, gpt2, openai_gpt,
)  # fmt: skip
