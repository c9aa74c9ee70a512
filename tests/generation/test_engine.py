"""Texts from a toy that reads with a cache: the same as without, alone or side by side."""

import pytest
import torch
from toy_models import greedy_by_hand, toy

from plmkit.architectures.contract import CacheSettings
from plmkit.errors import InputError, SettingError
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import GeneratedText

PROMPTS = ["the cat", "a bird hears the moon, and", "我的狗", "the cat sees", "it"]
GREEDY = GenerationOptions(tokens=30, temperature=0)


def texts(found: list[GeneratedText]) -> list[str]:
    return [text.text for text in found]


@pytest.mark.parametrize("options", [GREEDY, GenerationOptions(tokens=3, n=2), GenerationOptions(tokens=3, beams=2)])
def test_no_prompts_give_no_texts(options):
    assert toy().generate([], options) == []


@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_with_a_cache_is_greedy_without(kind, prompt):
    engine = toy(kind)
    row = engine.sequence(prompt, engine.encode(prompt), GREEDY, 0, 0)
    list(engine.decode([row], GREEDY))
    assert row.tokens == greedy_by_hand(engine, prompt, 30)


@pytest.mark.parametrize(
    "options", [GREEDY, GenerationOptions(tokens=30), GenerationOptions(tokens=30, temperature=1.0, top_k=20)]
)
def test_prompts_of_different_length_side_by_side_give_what_each_gives_alone(options):
    engine = toy()
    together = engine.generate(PROMPTS, options)
    for number, prompt in enumerate(PROMPTS):
        row = engine.sequence(prompt, engine.encode(prompt), options, number, 0)
        list(engine.decode([row], options))
        assert row.result() == together[number]


def test_a_row_that_ends_leaves_the_others_as_they_were():
    engine = toy()
    stop = texts(engine.generate(PROMPTS, GREEDY))[0][3:6]
    stopped = GenerationOptions(tokens=30, temperature=0, stop=(stop,))
    found = engine.generate(PROMPTS, stopped)
    assert found[0].ended == "stop"
    assert found == [engine.generate([prompt], stopped)[0] for prompt in PROMPTS]


def test_one_beam_is_greedy():
    engine = toy()
    for prompt in PROMPTS:
        one = engine.generate([prompt], GenerationOptions(tokens=30, beams=1))[0]
        other = engine.generate([prompt], GREEDY)[0]
        assert (one.text, one.tokens, one.ended) == (other.text, other.tokens, other.ended)


@torch.inference_mode()
def log_probability(engine, prompt: str, text: GeneratedText, written: list[int]) -> float:
    tokens = engine.tokenizer.encode(prompt)
    hidden = engine.model.model.extend(
        torch.tensor([tokens + written]), engine.model.model.begin(CacheSettings(1, 0))
    )[0, len(tokens) - 1 : -1]  # fmt: skip
    logs = engine.model.logits(hidden).log_softmax(-1)
    return float(logs[torch.arange(len(written)), torch.tensor(written)].sum())


def test_with_as_many_beams_as_there_are_beginnings_the_most_likely_text_is_found():
    engine = toy()
    size = len(engine.tokenizer.vocabulary)
    found = engine.generate(["the cat"], GenerationOptions(tokens=2, beams=size, length_penalty=0.0))[0]
    tokens = engine.tokenizer.encode("the cat")
    with torch.inference_mode():
        both = torch.tensor([[*tokens, first] for first in range(size)])
        hidden = engine.model.model.extend(both, engine.model.model.begin(CacheSettings(size, 0)))
        first = engine.model.logits(hidden[:1, -2]).log_softmax(-1)[0]
        second = engine.model.logits(hidden[:, -1]).log_softmax(-1)
    total = first[:, None] + second
    end = engine.tokenizer.vocabulary.end
    total[end] = -torch.inf
    alone = [first[end], *(first + second[:, end])]
    total[:, end] = -torch.inf
    assert found.score == pytest.approx(float(max(total.max(), *alone)), abs=1e-5)


def test_more_beams_find_no_less_likely_texts_and_n_of_them_come_best_first():
    engine = toy()
    found = engine.generate(["the cat"], GenerationOptions(tokens=8, beams=6, n=4, length_penalty=0.0))
    scores = [text.score for text in found]
    assert len(found) == 4 and scores == sorted(scores, reverse=True)
    greedy = engine.generate(["the cat"], GenerationOptions(tokens=8, beams=1, length_penalty=0.0))[0]
    assert scores[0] >= greedy.score


def test_the_same_seed_gives_the_same_texts_and_another_others():
    engine = toy()
    one = engine.generate(PROMPTS, GenerationOptions(tokens=20, n=3, seed=1))
    assert one == engine.generate(PROMPTS, GenerationOptions(tokens=20, n=3, seed=1))
    assert texts(one) != texts(engine.generate(PROMPTS, GenerationOptions(tokens=20, n=3, seed=2)))
    assert len(one) == 15
    assert [text.prompt for text in one[:4]] == [*["the cat"] * 3, PROMPTS[1]]
    assert len(set(texts(one[:3]))) == 3


def test_a_stream_says_the_text_in_pieces_and_then_the_whole():
    engine = toy()
    for options in (GREEDY, GenerationOptions(tokens=30, seed=4), GenerationOptions(tokens=9, beams=3)):
        *said, whole = engine.stream(["我的"], options)
        assert whole == engine.generate(["我的"], options)[0]
        assert "".join(said) == whole.text
        assert "\ufffd" not in whole.text
        assert options.beams or len(said) > 1


def test_several_texts_are_printed_in_order_the_first_token_by_token():
    engine = toy()
    prompts = ["a bird hears the moon, and", "it", "the cat"]
    for options in (
        GREEDY,
        GenerationOptions(tokens=30, n=2),
        GenerationOptions(tokens=4, n=2),
        GenerationOptions(tokens=5, beams=2, n=2),
    ):
        reported = list(engine.stream(prompts, options))
        texts = [text for text in reported if isinstance(text, GeneratedText)]
        assert texts == engine.generate(prompts, options)
        assert [text.prompt for text in texts] == [prompt for prompt in prompts for _ in range(options.n)]
        for text in texts:
            said = reported[: reported.index(text)]
            assert "".join(said) == text.text
            reported = reported[len(said) + 1 :]
    steps, extend = [], engine.model.model.extend
    engine.model.model.extend = lambda tokens, cache: steps.append(1) or extend(tokens, cache)
    next(engine.stream(prompts, GenerationOptions(tokens=30, temperature=0)))
    assert len(steps) < 20  # not when all thirty are there


def test_a_search_spells_each_beginning_once():
    engine = toy()
    decode, calls = engine.tokenizer.decode, []
    engine.tokenizer.decode = lambda ids: calls.append(1) or decode(ids)
    counts = {}
    for tokens in (50, 100):
        calls.clear()
        (found,) = engine.generate(["the cat"], GenerationOptions(tokens=tokens, beams=4))
        assert found.tokens == tokens
        counts[tokens] = len(calls)
    assert counts[100] < 2.2 * counts[50]
    assert counts[100] <= 100 * 2 * 4 * 1.1


def test_special_tokens_are_never_written():
    engine, options = toy("words"), GenerationOptions(tokens=100, temperature=5.0)
    rows = [engine.sequence("the cat", engine.encode("the cat"), options, 0, sample) for sample in range(20)]
    list(engine.decode(rows, options))
    written = [token for row in rows for token in row.tokens]
    assert len(written) > 500
    assert not engine.tokenizer.vocabulary.special & set(written)


def test_a_text_ends_where_the_model_ends_it():
    engine = toy("words")
    found = engine.generate(["the cat"] * 20, GenerationOptions(tokens=200, temperature=5.0))
    ended = [text for text in found if text.ended == "end"]
    assert ended and all(text.tokens < 200 for text in ended)
    assert all(engine.tokenizer.vocabulary.tokens[engine.end] not in text.text for text in ended)


def test_a_text_ends_where_the_context_is_full():
    engine = toy(max_length=12)
    prompt = "the cat"
    room = 12 - len(engine.tokenizer.encode(prompt))
    (found,) = engine.generate([prompt], GREEDY)
    assert (found.tokens, found.ended) == (room, "context")
    assert engine.generate([prompt], GenerationOptions(tokens=2, temperature=0))[0].ended == "length"


def test_a_prompt_that_is_empty_or_too_long_is_refused():
    engine = toy(max_length=12)
    with pytest.raises(InputError, match="The prompt is empty"):
        engine.generate(["the cat", ""], GREEDY)
    with pytest.raises(InputError, match=r"The prompt has \d+ tokens, but the context of this model is 12 tokens"):
        list(engine.stream(["the cat sees a house and a bird hears the moon"], GREEDY))


@pytest.mark.parametrize(
    ("kind", "stop", "said"),
    [
        ("words", "\n", r"stop string '\\n' can never be generated: this model's tokenizer ignores it"),
        ("word ends", "a\na", r"stop string 'a\\na' can never be generated: this model's tokenizer reads it as 'a a'"),
        ("word ends", "Q:", "stop string 'Q:' can never be generated"),
        ("word ends", "ж", "stop string 'ж' can never be generated"),
    ],
)
def test_a_stop_string_that_the_tokenizer_cannot_spell_is_refused(kind, stop, said):
    with pytest.raises(SettingError, match=said):
        toy(kind).generate(["the cat"], GenerationOptions(stop=(".", stop)))


@pytest.mark.parametrize(
    ("kind", "stop"),
    [("bytes", "\n"), ("bytes", "Ж"), ("bytes", "\n\n###"), ("words", " "), ("words", "."), ("words", "the cat"),
     ("word ends", "isn't it?"), ("word ends", ". "), ("word ends", "狗")],
)  # fmt: skip
def test_a_stop_string_that_the_tokenizer_can_spell_is_taken(kind, stop):
    assert toy(kind).generate(["the cat"], GenerationOptions(tokens=3, stop=(stop,)))


def test_long_and_short_prompts_go_in_separate_groups():
    from plmkit.generation.engine import by_prompt_length

    engine = toy()
    rows = [engine.sequence("", [1] * size, GREEDY, 0, 0) for size in (100, 3, 40, 9, 110, 2)]
    assert [[len(row.prompt) for row in group] for group in by_prompt_length(rows, 30)] == [[2, 3, 9], [40], [100, 110]]
