"""Beam search over several sources at once, compared with a search through all texts of a vocabulary of six tokens."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn
from toy_models import toy

from plmkit.architectures.contract import CacheSettings
from plmkit.data.batch import Side
from plmkit.generation.beam_search import beam_search, length_penalty, search_of
from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.inference.translating import Target
from plmkit.layers.cache import Cache

TOKENS, END, START, LONGEST = 6, 5, 5, 4
EVERY = 5**LONGEST  # beams: one for each beginning


class Written(Cache):
    """The source of each row, and what the row has read."""

    def __init__(self, sources: Tensor) -> None:
        self.sources, self.read = sources, [()] * len(sources)

    def pick(self, rows: Tensor) -> None:
        self.sources, self.read = self.sources[rows], [self.read[row] for row in rows.tolist()]


class Drawn(nn.Module):
    """What follows a prefix is drawn by a seed that is made of the source and the prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.steps = 0, 0

    def begin(self, given: CacheSettings) -> Written:
        self.started += 1
        assert given.source is not None
        return Written(given.source.tokens[:, 0])

    def extend(self, tokens: Tensor, cache: Written) -> Tensor:
        self.steps += 1
        cache.read = [(*read, token) for read, token in zip(cache.read, tokens[:, 0].tolist(), strict=True)]
        return torch.stack([logits_after(*row) for row in zip(cache.sources.tolist(), cache.read, strict=True)])[
            :, None
        ]


def logits_after(source: int, read: tuple[int, ...]) -> Tensor:
    seed = int("1" + "".join(map(str, read)) + str(source))
    return 2 * torch.randn(TOKENS, generator=torch.Generator().manual_seed(seed))


def every_text(source: int, penalty: float) -> list[tuple[tuple[int, ...], float]]:
    """All texts of up to four tokens, the end among them, with their scores, best first."""
    words = range(TOKENS - 1)
    ended = [(*text, END) for size in range(LONGEST) for text in product(words, repeat=size)]
    found = []
    for text in [*ended, *product(words, repeat=LONGEST)]:
        read, total = (START,), 0.0
        for token in text:
            total += float(logits_after(source, read).log_softmax(-1)[token])
            read = (*read, token)
        found.append((tuple(token for token in text if token != END), total / ((5 + len(text)) / 6) ** penalty))
    return sorted(found, key=lambda one: -one[1])


def searched(model: Drawn, sources: list[int], **asked: float) -> list[list[tuple[tuple[int, ...], float]]]:
    options = GenerationOptions(**asked)
    lm = LanguageModel(model, nn.Identity(), TOKENS, [], torch.device("cpu"))
    side = Side(tokens=torch.tensor(sources)[:, None], visible=torch.ones(len(sources), 1, dtype=torch.bool))
    searches = [search_of(Target(LONGEST, END), options, exact=True) for _ in sources]
    cache = lm.begin(len(sources), LONGEST, side)
    beam_search(lm, searches, cache, lm.extend([[START]] * len(sources), cache)[:, -1])
    return [[(target.tokens, score) for target, score in search.best] for search in searches]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 3.0, -0.5])
def test_with_a_beam_for_every_beginning_the_best_of_all_texts_are_found(penalty):
    sources = [1, 2, 3]
    for source, found in zip(
        sources, searched(Drawn(), sources, beams=EVERY, n=5, length_penalty=penalty), strict=True
    ):
        wanted = every_text(source, penalty)[:5]
        assert [text for text, _ in found] == [text for text, _ in wanted]
        assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-5)


@pytest.mark.parametrize(("length", "divisor"), [(1, 1.0), (5, 1.358655), (10, 1.732862)])
def test_the_length_penalty_is_that_of_the_paper(length, divisor):
    assert length_penalty(length, 0.6) == pytest.approx(divisor, rel=1e-6)
    assert length_penalty(length, 0.0) == 1


def test_one_beam_is_greedy_decoding():
    for source in range(20):
        read = (START,)
        while len(read) <= LONGEST and read[1:][-1:] != (END,):
            read = (*read, int(logits_after(source, read).argmax()))
        ((found, _),) = searched(Drawn(), [source], beams=1)[0]
        assert found == tuple(token for token in read[1:] if token != END)


def test_sources_together_give_what_each_gives_alone_and_are_encoded_once():
    model = Drawn()
    together = searched(model, list(range(20)), beams=3, n=2)
    assert model.started == 1
    assert together == [searched(Drawn(), [source], beams=3, n=2)[0] for source in range(20)]


def test_more_beams_find_better_texts_and_all_beams_the_best():
    sources = list(range(20))
    one, four, every = (
        [found[0][1] for found in searched(Drawn(), sources, beams=beams, length_penalty=0.6)]
        for beams in (1, 4, EVERY)
    )
    best = [every_text(source, 0.6)[0][1] for source in sources]
    assert every == pytest.approx(best, abs=1e-5)
    assert improved(one, four) == [1, 6, 8, 10, 12, 14, 16]
    assert improved(four, every) == [4]
    assert improved(four, one) == improved(every, four) == []


def improved(fewer: list[float], more: list[float]) -> list[int]:
    """The sources whose best text scores higher with the second number of beams."""
    return [source for source, (old, new) in enumerate(zip(fewer, more, strict=True)) if new > old + 1e-5]


class Shares(Drawn):
    """What follows is written down by the text so far, or else the last of all: `{(): {0: 0.4, END: 0.6}}`."""

    def __init__(self, shares: dict[tuple[int, ...], dict[int, float]]) -> None:
        super().__init__()
        self.shares = shares

    def extend(self, tokens: Tensor, cache: Written) -> Tensor:
        super().extend(tokens, cache)
        found = torch.zeros(len(tokens), 1, TOKENS)
        for row, read in enumerate(cache.read):
            for token, share in self.shares.get(read[1:], list(self.shares.values())[-1]).items():
                found[row, 0, token] = share
        return found.log()


def best_of(model: Drawn, penalty: float) -> tuple[int, ...]:
    return searched(model, [0], beams=2, length_penalty=penalty)[0][0][0]


def test_a_search_ends_when_no_beam_can_win():
    sure = Shares({(): {**dict.fromkeys(range(5), 0.004), END: 0.98}})
    assert best_of(sure, 0.6) == ()
    assert sure.steps == 1  # the best of the others, log 0.004, cannot reach log 0.98 by any length


def test_a_search_continues_while_the_length_penalty_may_still_favour_a_beam():
    """log 0.6 = -0.51 beats log 0.4 / (7 / 6)³ = -0.58 of the next length, but not log 0.4 / (9 / 6)³ = -0.27."""
    assert best_of(Shares({(): {0: 0.4, END: 0.6}, (0,): {0: 1.0}}), 3.0) == (0, 0, 0, 0)
    assert best_of(Shares({(): {0: 0.4, END: 0.6}, (0,): {0: 1.0}}), 1.0) == ()


def test_a_search_has_all_its_beams_when_the_best_continuations_are_ends():
    """Both beams end with 0.6, and longer texts win by their length: -1.61 / (8 / 6)¹⁰ against -1.20 / 4.67."""
    shares = {(): {0: 0.5, 1: 0.5}, (0,): {2: 0.4, END: 0.6}, (1,): {2: 0.4, END: 0.6}, (0, 2): {END: 1.0}}
    assert best_of(Shares(shares), 10.0) in ((0, 2), (1, 2))


def test_prompts_of_several_lengths_searched_together_give_what_each_gives_alone():
    engine, options = toy(), GenerationOptions(tokens=12, beams=3, n=2)
    prompts = ["the cat", "a bird", "it", "the cat sees", "the dog", "我的狗"]
    together = engine.generate(prompts, options)
    alone = [text for prompt in prompts for text in engine.generate([prompt], options)]
    assert [(text.prompt, text.text, text.ended) for text in together] == [(t.prompt, t.text, t.ended) for t in alone]
    assert [text.score for text in together] == pytest.approx([text.score for text in alone], abs=1e-4)


def test_prompts_of_one_length_are_read_in_one_batch():
    engine, sizes = toy(), []
    extend = engine.model.model.extend
    engine.model.model.extend = lambda tokens, cache: sizes.append(len(tokens)) or extend(tokens, cache)
    prompt = "the cat"
    engine.generate([prompt] * 5, GenerationOptions(tokens=4, beams=3))
    assert max(sizes) == 15
    assert len(sizes) == 4  # the prompt, and three more steps
