"""Text comes token by token, whole characters only, and ends before a stop string."""

import random

import pytest
from toy_models import LINES, tokenizer

from plmkit.generation.sequence import StopStrings, StreamDecoder

PROMPT = "the cat"


def pieces(made, tokens, prompt=PROMPT):
    spelling = StreamDecoder(made, made.encode(prompt))
    return [*(spelling.add(token) for token in tokens), spelling.end()]


def test_a_chinese_character_comes_when_its_last_byte_does():
    made = tokenizer("bytes", 262)  # bytes, and next to nothing else
    tokens = made.encode("狗很")
    assert len(tokens) == 6
    assert pieces(made, tokens) == ["", "", "狗", "", "", "很", ""]


def test_bytes_that_never_become_a_character_are_not_shown():
    made = tokenizer("bytes", 262)
    half, letter = made.encode("狗")[:2], made.encode("a")
    assert "".join(pieces(made, half)) == ""
    assert "".join(pieces(made, [*half, *letter])) == "a"


@pytest.mark.parametrize("kind", ["bytes", "words"])
def test_pieces_joined_are_the_text_that_decoding_all_at_once_gives(kind):
    made = tokenizer(kind)
    text = " ".join(random.Random(0).choices(LINES, k=30))
    prompt, tokens = made.encode(PROMPT), made.encode(" " + text)
    assert len(tokens) > 200
    whole = made.decode([*prompt, *tokens])
    assert made.decode(prompt) + "".join(pieces(made, tokens)) == whole


def test_any_words_in_any_order_come_as_they_are_read_together():
    made = tokenizer("words")
    rng, ordinary = random.Random(1), made.vocabulary.ordinary.tolist()
    marks = [made.vocabulary.tokens.index(mark) for mark in ("'", "-", "##s", "t")]
    for _ in range(200):
        prompt = [*rng.choices(ordinary, k=3), *made.encode("cat")]
        tokens = [*made.encode("cat"), *rng.choices([*ordinary, *marks * 20], k=25)]
        spelling = StreamDecoder(made, prompt)
        said = "".join([*map(spelling.add, tokens), spelling.end()])
        assert made.decode(prompt) + said == made.decode([*prompt, *tokens])


def test_a_prompt_that_ends_within_a_word_is_gone_on_with():
    made = tokenizer("words")
    assert made.decode([*made.encode("it'"), *made.encode("t")]) == "it't"
    assert "".join(pieces(made, made.encode("t cat"), prompt="it'")) == "t cat"


def test_the_text_ends_before_the_stop_string_wherever_it_is_cut():
    for cut in range(1, 9):
        stops = StopStrings(["\n\nQ", "END"])
        text = "one\n\ntwo\n\nQ: three"
        said = stops.add(text[:cut])
        for character in text[cut:]:
            said += "" if stops.found else stops.add(character)
        assert said == "one\n\ntwo"
        assert stops.found


def test_text_that_may_start_a_stop_string_waits_and_is_printed_if_it_does_not():
    stops = StopStrings(["ab"])
    assert [stops.add(piece) for piece in ("xa", "a", "c", "a")] == ["x", "a", "ac", ""]
    assert not stops.found
    assert stops.end() == "a"
