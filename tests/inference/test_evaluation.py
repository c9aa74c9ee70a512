"""Plain text scored by causal language models: which tokens, divided by what, and with which context."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.decoder import Decoder, PostNormDecoder
from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.data.batch import Batch, Side
from plmkit.errors import InputError, SettingError
from plmkit.generation.likelihood import token_log_probabilities, windows
from plmkit.inference.evaluation import evaluate_text, read_text
from plmkit.inference.model import Model
from plmkit.network import Network
from plmkit.objectives.causal_lm import AdaptiveLM, AuxiliaryLM, CausalLM
from plmkit.tokenizers.counted import Characters, Words

SHAPE = {"layers": 2, "heads": 2, "width": 8, "inner": 12, "dropout": 0.0, "attention_dropout": 0.0}
XL = SegmentRecurrence(**SHAPE, memory=6, max_length=6)
LETTERS = Characters().train(["abc. xyz"])


def model_of(architecture, objective, tokenizer=LETTERS) -> Model:
    torch.manual_seed(0)
    built = architecture.build(tokenizer.vocabulary)
    network = Network(built, {"causal_lm": objective.build(built)}, {"causal_lm": 1.0})
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return Model(network=network, architecture=architecture, tokenizer=tokenizer, folder=Path("model"))


def character_model(max_length: int = 5) -> Model:
    return model_of(CharacterDecoder(**SHAPE, max_length=max_length), AuxiliaryLM())


def tokens_of(count: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(2, len(LETTERS.vocabulary), (count,), generator=torch.Generator().manual_seed(seed))


def losses(model: Model, tokens: torch.Tensor, **windows: int) -> torch.Tensor:
    """(T,) minus the log-probability of each token but the first."""
    return -torch.from_numpy(token_log_probabilities(model.engine, [tokens.numpy()], **windows)[0])


def reported(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    """(vocabulary,) log-probabilities of what follows these tokens."""
    rows = tokens[None]
    batch = Batch(source=Side(tokens=rows, visible=rows >= 0, segments=0 * rows))
    with torch.inference_mode():
        return model.network.heads["causal_lm"].vocabulary(model.network.model(batch).hidden[0, -1]).log_softmax(-1)


def test_a_text_is_read_after_an_end_token_and_each_document_is_followed_by_one(tmp_path):
    (tmp_path / "text.txt").write_text("ab. xyz\nc\n\nba\n")
    text = read_text(LETTERS, tmp_path / "text.txt")
    names = LETTERS.vocabulary.names(text.tokens.tolist())
    end = "<|endoftext|>"
    assert names == [end, *"ab. xyz c", end, *"ba", end]
    assert (text.characters, text.bytes) == (9 + 1 + 2 + 1, 13)


def test_characters_and_bytes_are_those_of_the_text_whatever_the_tokens(tmp_path):
    (tmp_path / "text.txt").write_text("我的狗。它很可爱。\nthe dog. It is sweet.\n")
    for tokenizer in (Characters().train(["狗"]), Words().train(["狗 dog"])):
        text = read_text(tokenizer, tmp_path / "text.txt")
        said = "我的狗。它很可爱。 the dog. It is sweet."
        assert (text.characters, text.bytes) == (len(said) + 1, len(said.encode()) + 1)


def test_a_tokenizer_that_drops_something_is_known(tmp_path):
    (tmp_path / "text.txt").write_text("The dog.  It is\nsweet.\n")
    known = {
        "Characters": Characters().train(["The dog. It is sweet."]),
        "Words": Words().train(["The dog. It is sweet."] * 2),
    }
    assert {name: read_text(one, tmp_path / "text.txt").lossless for name, one in known.items()} == dict.fromkeys(
        known, True
    )
    assert not read_text(Words().train(["The dog. It is"] * 2), tmp_path / "text.txt").lossless


def test_bits_are_the_loss_in_other_units(tmp_path):
    (tmp_path / "text.txt").write_text("ab. xyzq\n")
    found = evaluate_text(character_model(max_length=64), tmp_path / "text.txt")
    assert (found.tokens, found.characters, found.unknown_share) == (9, 9, pytest.approx(1 / 9))
    assert found.perplexity == pytest.approx(math.exp(found.loss))
    assert found.bits_per_character == pytest.approx(found.loss / math.log(2))
    assert found.bits_per_byte == found.bits_per_character


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_sliding_windows_give_what_the_model_says_of_each_window(stride):
    model, tokens = character_model(max_length=5), tokens_of(19)
    found = losses(model, tokens, size=5, stride=stride)
    for window in windows(18, 5, stride):
        assert window.end - window.begin == 5
        for place in range(window.first, window.end):
            expected = reported(model, tokens[window.begin : place + 1])
            assert float(found[place]) == pytest.approx(-float(expected[tokens[place + 1]]), abs=1e-5)


@pytest.mark.parametrize("architecture", [CharacterDecoder, Decoder, PostNormDecoder])
def test_a_score_depends_on_the_tokens_of_its_window_and_on_no_older_one(architecture):
    """The model knows nothing before its row: to score a text, rows slide over it."""
    objective = AuxiliaryLM() if architecture is CharacterDecoder else CausalLM()
    model, tokens = model_of(architecture(**SHAPE, max_length=5), objective), tokens_of(13)
    plain = losses(model, tokens, size=5, stride=1)
    for place in range(12):
        other = tokens.clone()
        other[place] = 2 + (other[place] - 1) % (len(LETTERS.vocabulary) - 2)
        differs = (losses(model, other, size=5, stride=1) != plain).nonzero().flatten().tolist()
        scored = [place - 1] if place else []  # number n is the score of token n + 1, which reads n and four before
        assert differs == [*scored, *range(place, min(place + 5, 12))]


def test_with_a_stride_of_one_every_token_has_a_full_window():
    assert spans(windows(12, 5, 1)) == [(0, 5, 0), *((end - 5, end, end - 1) for end in range(6, 13))]
    assert spans(windows(12, 5, 5)) == [(0, 5, 0), (5, 10, 5), (7, 12, 10)]


def spans(found):
    return [(window.begin, window.end, window.first) for window in found]


def test_a_model_that_remembers_says_the_same_read_in_one_or_in_many_pieces(monkeypatch):
    tokens = tokens_of(40)
    for architecture, objective in ((XL, AdaptiveLM()), (Recurrent(layers=1, width=8, dropout=0.0), CausalLM())):
        model, found = model_of(architecture, objective), []
        for pieces in (1, 7, 100):
            monkeypatch.setattr("plmkit.generation.likelihood.CHUNK", pieces)
            found.append(losses(model, tokens))
        torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=0)
        torch.testing.assert_close(found[0], found[2], atol=1e-5, rtol=0)


def test_reading_with_enough_memory_is_one_pass_and_runs_each_token_once():
    model, tokens = model_of(SegmentRecurrence(**SHAPE, memory=64), AdaptiveLM()), tokens_of(30)
    seen = []
    model.network.model.blocks[0].feed_forward.register_forward_hook(
        lambda part, given, made: seen.append(made.shape[1])
    )
    found = losses(model, tokens)
    assert sum(seen) == 29
    for place in (0, 10, 28):
        expected = -float(reported(model, tokens[: place + 1])[tokens[place + 1]])
        assert float(found[place]) == pytest.approx(expected, abs=1e-5)


def test_a_text_is_as_likely_as_its_tokens_one_after_another():
    """The chain rule; and over all texts of one length, probabilities sum to 1."""
    tokenizer = Characters().train(["ab"])
    ordinary = [tokenizer.vocabulary.tokens.index(letter) for letter in "ab "]
    every = range(len(tokenizer.vocabulary))
    for model in (
        model_of(Decoder(**SHAPE, max_length=8), CausalLM(), tokenizer),
        model_of(XL, AdaptiveLM(), tokenizer),
        model_of(Recurrent(layers=1, width=8, dropout=0.0), CausalLM(), tokenizer),
    ):
        total = 0.0
        for text in itertools.product(every, repeat=3):
            tokens = torch.tensor([1, *text])
            logs = -losses(model, tokens)
            total += math.exp(float(logs.sum()))
            if text == (ordinary[0], ordinary[1], ordinary[0]):
                chain = sum(float(reported(model, tokens[:place])[tokens[place]]) for place in (1, 2, 3))
                assert float(logs.sum()) == pytest.approx(chain, abs=1e-5)
        assert total == pytest.approx(1.0, abs=1e-4)


def test_impossible_options_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text("abc\n")
    (tmp_path / "empty.txt").write_text("\n\n")
    windowed, remembering = character_model(), model_of(XL, AdaptiveLM())
    with pytest.raises(SettingError, match="--stride must be from 1 to 5, the context length of this model; found 6"):
        evaluate_text(windowed, tmp_path / "text.txt", stride=6)
    with pytest.raises(SettingError, match="has no recurrent memory, so --memory has no effect"):
        evaluate_text(windowed, tmp_path / "text.txt", memory=6)
    with pytest.raises(SettingError, match=r"--stride has no effect\. Leave it out"):
        evaluate_text(remembering, tmp_path / "text.txt", stride=1)
    for memory in (0, 10**21):
        with pytest.raises(
            SettingError,
            match=rf"--memory must be from 1 to 1,000,000 tokens; found {memory}\.",
        ):
            evaluate_text(remembering, tmp_path / "text.txt", memory=memory)
    with pytest.raises(
        SettingError, match=r"^model has no relative positions, so --clamp has no effect\. Leave it out\.$"
    ):
        evaluate_text(windowed, tmp_path / "text.txt", clamp=6)
    with pytest.raises(SettingError, match=r"^--clamp must be 1 or more; found 0"):
        evaluate_text(remembering, tmp_path / "text.txt", clamp=0)
    with pytest.raises(InputError):
        evaluate_text(windowed, tmp_path / "empty.txt")


def test_a_longer_memory_can_be_set(tmp_path):
    (tmp_path / "text.txt").write_text("abc xyz " * 5)
    model = model_of(XL, AdaptiveLM())
    short = evaluate_text(model, tmp_path / "text.txt")
    long = evaluate_text(model, tmp_path / "text.txt", memory=20)
    assert (short.reading, long.reading) == ("recurrent memory of 6 tokens", "recurrent memory of 20 tokens")
    assert short.loss != long.loss
    assert np.isfinite(long.loss)
    assert evaluate_text(model, tmp_path / "text.txt") == short  # the model is as it was


def test_distances_can_be_clamped_for_a_text(tmp_path):
    (tmp_path / "text.txt").write_text("abc xyz " * 5)
    model, clamped = model_of(XL, AdaptiveLM()), model_of(replace(XL, clamp=3), AdaptiveLM())
    plain = evaluate_text(model, tmp_path / "text.txt")
    found = evaluate_text(model, tmp_path / "text.txt", clamp=3)
    assert found.loss == pytest.approx(evaluate_text(clamped, tmp_path / "text.txt").loss, abs=1e-6)
    assert abs(found.loss - plain.loss) > 1e-4
    assert found.reading == "recurrent memory of 6 tokens, distances clamped at 3"
    long = evaluate_text(model, tmp_path / "text.txt", memory=20, clamp=3)
    assert long.reading == "recurrent memory of 20 tokens, distances clamped at 3"
    assert evaluate_text(model, tmp_path / "text.txt") == plain  # the model is as it was


def test_one_word_is_a_text(tmp_path):
    (tmp_path / "text.txt").write_text("a")
    assert evaluate_text(model_of(XL, AdaptiveLM()), tmp_path / "text.txt").tokens == 2  # and its end


def test_the_command_line_tells_it(plm, mixed_corpus, tmp_path):
    small = ["architecture.width=32", "stages=[[1.0, 16]]", "tokenizer=Characters", "run.threads=1"]
    chosen = [part for setting in small for part in ("--set", setting)]
    ran = plm("pretrain", "lstm-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 2, *chosen)
    assert ran.code == 0, ran.err
    (tmp_path / "text.txt").write_text("the cat sees a house.\n")
    ran = plm("evaluate", tmp_path / "run", tmp_path / "text.txt", "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert {"loss", "perplexity", "bits_per_character", "bits_per_byte", "tokens", "reading"} <= found.keys()
    assert (found["tokens"], found["characters"]) == (22, 22)
    shown = plm("evaluate", tmp_path / "run", tmp_path / "text.txt").out
    assert "bits_per_character" in shown
    assert "Context: recurrent state over all previous tokens." in shown
    (tmp_path / "other.txt").write_text("the cat sees a ☃.\n", encoding="utf-8")
    lossy = plm("evaluate", tmp_path / "run", tmp_path / "other.txt", "--json")
    assert lossy.json["comparable"] is False
    assert "is lossy on this text" in lossy.err
    assert found["comparable"] is True
    assert "lossy" not in ran.err
    assert plm("evaluate", tmp_path / "run", tmp_path / "nothing.txt").code == 2


def test_a_masked_model_is_not_read_from_left_to_right(plm, pretrained, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sees a house.\n")
    ran = plm("evaluate", pretrained, tmp_path / "text.txt", "--stride", 2)
    assert ran.code == 2
    assert "is not a causal language model" in ran.err
    ran = plm("evaluate", pretrained, tmp_path / "text.txt", "--clamp", 2)
    assert ran.code == 2
    said = f"--stride, --memory and --clamp are for plain text; {pretrained} is not a causal language model."
    assert ran.err == f"plm: {said}\n"
