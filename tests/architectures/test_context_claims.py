"""What the papers say of context, shown small: tiny networks, toy text, seconds of training."""

import math
import random
from collections import Counter

import pytest
import torch
from sentences import sentence
from torch import Tensor

from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.network import Network
from plmkit.objectives.causal_lm import AdaptiveLM, AuxiliaryLM, CausalLM

SYMBOLS = 8  # numbers 2 to 9; 0 fills, 1 asks


def rows_of(tokens: Tensor, memory: Tensor | None = None) -> Batch:
    """Each token predicts the next; the last predicts nothing."""
    targets = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], IGNORE)], dim=1)
    return Batch(source=Side(tokens=tokens, visible=tokens >= 0, segments=0 * tokens), targets=targets, memory=memory)


def network_of(architecture, objective, vocabulary: int) -> Network:
    torch.manual_seed(0)
    model = architecture.build(unnamed(vocabulary))
    return Network(model, {"causal_lm": objective.build(model)}, {"causal_lm": 1.0})


def recalled(memory: int, steps: int = 120) -> float:
    """Share of symbols of the segment before that are said when asked for: said once, asked eight tokens later."""
    shape = SegmentRecurrence(layers=1, heads=2, width=32, inner=64, memory=memory, dropout=0.0)
    made = network_of(shape, AdaptiveLM(), SYMBOLS + 2)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)
    head, rng = made.heads["causal_lm"], torch.Generator().manual_seed(1)
    right: list[float] = []
    for step in range(steps + 20):
        symbols = torch.randint(2, SYMBOLS + 2, (64,), generator=rng)
        said, asks = torch.zeros(64, 6, dtype=torch.long), torch.zeros(64, 4, dtype=torch.long)
        said[:, 1], asks[:, 3] = symbols, 1
        kept = made.model(rows_of(said)).memory
        hidden = made.model(rows_of(asks, kept)).hidden[:, 3]
        if step < steps:
            head.vocabulary.loss(hidden, symbols).backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            right.append(float((head.vocabulary(hidden).argmax(-1) == symbols).float().mean()))
    return sum(right) / len(right)


def test_memory_recalls_what_the_segment_before_said_and_without_it_nothing_does():
    assert recalled(memory=6) >= 0.9
    assert recalled(memory=0) == pytest.approx(1 / SYMBOLS, abs=0.05)


def spelt(text: str) -> list[int]:
    letters = " abcdefghijklmnopqrstuvwxyz."
    return [letters.index(letter) for letter in text]


def test_segments_that_share_nothing_start_worse_than_they_end():
    """Context fragmentation (Dai et al., 2019, 3.1): the first characters of a segment have nothing to go by."""
    rng = random.Random(0)
    text = torch.tensor(spelt(" ".join(sentence(rng) for _ in range(800))))
    length, training = 16, 16 * 1000
    shape = CharacterDecoder(
        layers=2, heads=2, width=32, inner=64, max_length=length, dropout=0.0, attention_dropout=0.0
    )
    made = network_of(shape, AuxiliaryLM(), 28)
    optimizer = torch.optim.AdamW(made.parameters(), lr=5e-3)
    draw = torch.Generator().manual_seed(0)
    for step in range(150):
        begins = torch.randint(training - length, (32,), generator=draw)
        made.advance(step / 150)
        sum(made(rows_of(text[begins[:, None] + torch.arange(length)])).weighted.values()).backward()
        optimizer.step()
        optimizer.zero_grad()
    made.eval()
    held = text[training : training + (len(text) - training) // length * length].view(-1, length)
    with torch.no_grad():
        logs = made.heads["causal_lm"].vocabulary(made.model(rows_of(held)).hidden).log_softmax(-1)
    losses = -logs[:, :-1].gather(2, held[:, 1:, None]).mean(dim=(0, 2))  # (15,)
    assert losses[:4].mean() > 1.1 * losses[-4:].mean()


def lstm(rows: Tensor, vocabulary: int, steps: int) -> Network:
    made = network_of(Recurrent(layers=1, width=48, dropout=0.0, initial_range=0.1), CausalLM(), vocabulary)
    optimizer = torch.optim.AdamW(made.parameters(), lr=2e-2)
    draw = torch.Generator().manual_seed(0)
    for _ in range(steps):
        made(rows_of(rows[torch.randint(len(rows), (64,), generator=draw)])).weighted["causal_lm"].backward()
        optimizer.step()
        optimizer.zero_grad()
    return made.eval()


@torch.no_grad()
def log_probability(made: Network, words: list[int]) -> float:
    tokens = torch.tensor([words])
    logs = made.heads["causal_lm"].vocabulary(made.model(rows_of(tokens)).hidden[0]).log_softmax(-1)
    return float(logs[:-1].gather(1, tokens[0, 1:, None]).sum())


def trigram_perplexity(train: list[list[int]], test: list[list[int]], vocabulary: int) -> float:
    """Counts of three words, smoothed by those of two, of one, and by one for each word."""
    counts: Counter[tuple[int, ...]] = Counter()
    for words in train:
        for place in range(1, len(words)):
            for size in range(min(3, place + 1)):
                counts[tuple(words[place - size : place + 1])] += 1
                counts[(*words[place - size : place], -1)] += 1
    total, asked = 0.0, 0
    for words in test:
        for place in range(1, len(words)):
            share = 1 / vocabulary
            for size in range(min(3, place + 1)):
                before = tuple(words[place - size : place])
                share = (counts[(*before, words[place])] + share) / (counts[(*before, -1)] + 1)
            total, asked = total - math.log(share), asked + 1
    return math.exp(total / asked)


def test_an_n_gram_model_cannot_use_what_is_long_past_and_an_lstm_can():
    """The first word decides the last, four fillers later."""
    rng = random.Random(0)

    def line() -> list[int]:
        key = rng.randrange(2, 10)
        return [0, key, *(rng.randrange(18, 20) for _ in range(4)), key + 8]

    train, test = [line() for _ in range(6000)], [line() for _ in range(100)]
    made = lstm(torch.tensor(train), 20, steps=400)
    logs = sum(log_probability(made, words) for words in test)
    lstm_perplexity = math.exp(-logs / sum(len(words) - 1 for words in test))
    # a uniform first word of 8, four uniform fillers of 2, and a last word that is known
    assert lstm_perplexity < 1.1 * math.exp((math.log(8) + 4 * math.log(2)) / 6)
    assert trigram_perplexity(train, test, 20) > 1.25 * lstm_perplexity


def test_a_sentence_is_likelier_than_its_words_shuffled():
    rng = random.Random(0)
    texts = [sentence(rng).replace(".", " .").split() for _ in range(600)]
    names = ["|", *sorted({word for words in texts for word in words})]
    longest = max(map(len, texts))
    lines = [[0, *(names.index(word) for word in words)] for words in texts]
    rows = torch.tensor([[*line, *[0] * (longest + 1 - len(line))] for line in lines])
    made = lstm(rows[:500], len(names), steps=120)
    won = 0
    for words in lines[500:]:
        shuffled = words[1:]
        while shuffled == words[1:]:
            rng.shuffle(shuffled)
        won += log_probability(made, words) > log_probability(made, [0, *shuffled])
    assert won >= 90
