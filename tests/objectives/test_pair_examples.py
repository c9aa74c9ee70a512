"""The pairs that introductions to BERT show, made by the same code that makes training data."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.batch import IGNORE, Batch, as_batch
from plmkit.data.randomness import generator
from plmkit.data.rows import StretchPlan, fill
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.tokenizers.tokenizer import Tokenizer, bert_tokenizer

WORDS = """the man went to store he bought a gallon of milk penguin ##s are flight ##less birds calculus is branch
math it was developed by newton and leibniz panda native south central china"""
CHARACTERS = sorted(set("我的狗很可爱企鹅不擅长飞行醒吧你没有妹"))

STORE = ("the man went to the store", "he bought a gallon of milk")
BIRDS = ("penguins are flightless birds",)
MATH = ("calculus is a branch of math", "it was developed by newton and leibniz")
PANDA = ("panda is native to south central china",)


@dataclass(frozen=True)
class Example:
    first: tuple[str, ...]  # the document of the first text
    other: tuple[str, ...]  # another document
    hidden: tuple[int, ...]  # positions
    seen: str
    answers: tuple[str, ...]
    follows: int  # 0 it does, 1 it does not


EXAMPLES = {
    "milk": Example(
        STORE, BIRDS, (5, 12),
        "[CLS] the man went to [MASK] store [SEP] he bought a gallon [MASK] milk [SEP]", ("the", "of"), 0,
    ),
    "penguins": Example(
        STORE, BIRDS, (3, 9),
        "[CLS] the man [MASK] to the store [SEP] penguin [MASK] are flight ##less birds [SEP]", ("went", "##s"), 1,
    ),
    "panda": Example(
        MATH, PANDA, (12,),
        "[CLS] calculus is a branch of math [SEP] panda is native to [MASK] central china [SEP]", ("south",), 1,
    ),
    "calculus": Example(
        MATH, PANDA, (4, 9),
        "[CLS] calculus is a [MASK] of math [SEP] it [MASK] developed by newton and leibniz [SEP]",
        ("branch", "was"), 0,
    ),
    "狗": Example(
        ("我的狗很可爱", "醒醒吧"), ("企鹅不擅长飞行",), (3,),
        "[CLS] 我 的 [MASK] 很 可 爱 [SEP] 企 鹅 不 擅 长 飞 行 [SEP]", ("狗",), 1,
    ),
    "醒醒吧": Example(
        ("醒醒吧", "你没有妹妹"), ("企鹅不擅长飞行",), (8,),
        "[CLS] 醒 醒 吧 [SEP] 你 没 有 [MASK] 妹 [SEP]", ("妹",), 0,
    ),
}  # fmt: skip


class Forced:
    """Draws that mask exactly these positions."""

    def __init__(self, hidden: tuple[int, ...]) -> None:
        self.first = True
        self.hidden = hidden

    def uniform(self, count: int) -> np.ndarray:
        if not self.first:
            return np.zeros((1, count))  # every masked token becomes [MASK]
        self.first = False
        return np.array([[0.1 if place in self.hidden else 0.9 for place in range(count)]])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bert_tokenizer([*SPECIAL_TOKENS, *WORDS.split(), *CHARACTERS], lowercase=True)


def store_of(tokenizer: Tokenizer, *documents: tuple[str, ...]) -> TokenStore:
    tokens, lengths = tokenizer.encode_many([sentence for document in documents for sentence in document])
    return TokenStore(
        tokens=tokens,
        sentences=np.concatenate([[0], np.cumsum(lengths)]),
        documents=np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
        sources=np.zeros(len(documents), dtype=np.int16),
        survey=Survey(),
    )


def make(example: Example, tokenizer: Tokenizer) -> Batch:
    """One row: the first pair that the toss of a coin makes so, filled, with these positions hidden."""
    store = store_of(tokenizer, example.first, example.other)
    plan = next(
        StretchPlan(stretches=stretches[None], labels={"random_next": np.array([follows])})
        for seed in range(50)
        for plan in [SentencePairs(short=0.0).plan(store, np.arange(2), 64, generator(seed))]
        for stretches, follows in zip(plan.stretches, plan.labels["random_next"], strict=True)
        if stretches[0] == 0 and follows == example.follows
    )
    rows = fill(store, plan, np.array([0]), tokenizer.vocabulary, 64)
    rate = len(example.hidden) / rows.visible.sum()
    return as_batch(
        TokenMasking(rate=rate, mask_share=1.0, random_share=0.0)(rows, tokenizer.vocabulary, Forced(example.hidden))
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_has_the_tokens_targets_and_label_that_introductions_show(name, tokenizer):
    example = EXAMPLES[name]
    row = make(example, tokenizer)
    names = tokenizer.vocabulary.names
    shown = row.source.visible[0]
    assert " ".join(names(row.source.tokens[0, shown].tolist())) == example.seen
    asked = row.targets[0] != IGNORE
    assert tuple(names(row.targets[0, asked].tolist())) == example.answers
    assert row.random_next.tolist() == [example.follows]


@pytest.mark.parametrize("name", EXAMPLES)
def test_cls_comes_first_and_sep_after_each_text(name, tokenizer):
    vocabulary = tokenizer.vocabulary
    row = make(EXAMPLES[name], tokenizer)
    tokens = row.source.tokens[0, row.source.visible[0]]
    assert tokens[0] == vocabulary.cls
    assert tokens[-1] == vocabulary.sep
    assert (tokens == vocabulary.cls).sum() == 1
    assert (tokens == vocabulary.sep).sum() == 2


def test_segments_are_eight_zeros_then_eight_ones(tokenizer):
    row = make(EXAMPLES["狗"], tokenizer)
    assert row.source.segments[0, row.source.visible[0]].tolist() == [0] * 8 + [1] * 8


@pytest.mark.parametrize("name", ["panda", "calculus"])
def test_the_loss_of_an_example_asks_for_its_words_and_its_verdict(name, tokenizer):
    """`false, south` and `true, branch, was`: the mean over the words, plus the verdict."""
    row = make(EXAMPLES[name], tokenizer)
    vocabulary = tokenizer.vocabulary
    torch.manual_seed(0)
    model = Encoder(layers=1, heads=2, width=16, inner=16, max_length=64, dropout=0.0).build(vocabulary).eval()
    tasks = (MaskedLM(), NextSentence())
    network = Network(
        model, {task.name: task.build(model) for task in tasks}, dict.fromkeys(("masked_lm", "next_sentence"), 1.0)
    )
    states = model(row)
    logs = network.heads["masked_lm"].vocabulary(states.hidden[0]).log_softmax(-1)
    places = EXAMPLES[name].hidden
    words = [vocabulary.tokens.index(word) for word in EXAMPLES[name].answers]
    masked = -sum(logs[place, word] for place, word in zip(places, words, strict=True)) / len(words)
    verdict = -F.log_softmax(network.heads["next_sentence"].classify(states.pooled[0]), -1)[EXAMPLES[name].follows]
    torch.testing.assert_close(sum(network(row).weighted.values()), masked + verdict, atol=1e-6, rtol=1e-6)
