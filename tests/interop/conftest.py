"""Small folders of transformers, of several families."""

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    XLNetConfig,
    XLNetModel,
)

from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.unigram import ClosingUnigram

SOME = ["the cat sees a house. my friend hears the moon. " * 8, "the king\tcalls\nthe sea", "日本語, русский", "x!" * 9]


@pytest.fixture(scope="session")
def gpt2(made):
    """A GPT-2 of transformers with random weights and the tokenizer of a few sentences; its token 0 is `!`."""
    torch.manual_seed(4)
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(SOME, vocab_size=400)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>", bos_token="<|endoftext|>", model_max_length=48
    )
    assert tokenizer("!")["input_ids"] == [0]
    end = tokenizer.eos_token_id
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=48, n_embd=16, n_layer=2, n_head=2, initializer_range=0.4,
        bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(made / "gpt2")
    tokenizer.save_pretrained(made / "gpt2")
    return made / "gpt2"


@pytest.fixture(scope="session")
def roberta(made):
    """A RoBERTa with random weights, and byte-level BPE with its special tokens."""
    torch.manual_seed(6)
    tokenizer = ByteBPE(size=330).train(SOME)
    config = RobertaConfig(
        vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=50, initializer_range=0.4, type_vocab_size=1,
        pad_token_id=tokenizer.vocabulary.pad,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(made / "roberta")
    tokenizer.save(made / "roberta", 40)
    return made / "roberta"


@pytest.fixture(scope="session")
def xlnet(made):
    """An XLNet with random weights, with padding before a text and <cls> after it."""
    torch.manual_seed(7)
    tokenizer = ClosingUnigram(size=120).train(SOME * 20)
    config = XLNetConfig(
        vocab_size=len(tokenizer.vocabulary), d_model=16, n_layer=2, n_head=2, d_inner=24, initializer_range=0.4
    )
    XLNetModel(config).save_pretrained(made / "xlnet")
    tokenizer.save(made / "xlnet")
    return made / "xlnet"
