"""`plm generate` and `plm score`: texts on stdout, notes on stderr, mistakes in a few lines."""

import math
import sys
from pathlib import Path

import pytest

import plmkit
from plmkit.errors import InputError, PlmError

TINY = (
    "stages=[[1.0, 32]]", "architecture.max_length=48", "architecture.layers=2", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=64", "tokenizer.size=400", "run.threads=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def decoder(made, mixed_corpus):
    """A run folder of a GPT-2 of 2 layers of width 32 that has seen sixty batches."""
    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.terminal.screen import Screen
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain
    from plmkit.training.request import PretrainRequest

    out = made / "decoder"
    if not out.exists():
        order = PretrainRequest(
            settings=settle(find("gpt2-tiny"), TINY), corpora=(str(mixed_corpus),), out=out, budget=Budget(steps=60)
        )
        pretrain(order, Screen())
    return out


@pytest.fixture(scope="module")
def model(decoder):
    return plmkit.load(decoder, device="cpu")


def test_a_text_follows_its_prompt_on_stdout(plm, decoder, model):
    ran = plm("generate", decoder, "the cat", "--tokens", 8, "--seed", 3)
    assert ran.code == 0
    text = model.generate("the cat", tokens=8, seed=3)
    assert ran.out == f"the cat{text.text}\n"
    assert ran.err == ""
    assert plm("generate", decoder, "the cat", "--tokens", 8, "--seed", 3).out == ran.out


def test_several_texts_are_parted_by_a_line_and_come_as_json(plm, decoder, model):
    ran = plm("generate", decoder, "the cat", "我的", "--tokens", 5, "--n", 2)
    texts = model.generate(["the cat", "我的"], tokens=5, n=2)
    assert ran.out == "\n---\n".join(text.whole for text in texts) + "\n"
    reported = plm("generate", decoder, "the cat", "我的", "--tokens", 5, "--n", 2, "--json").json
    assert reported == {"texts": [vars(text) for text in texts]}
    assert [text["prompt"] for text in reported["texts"]] == ["the cat", "the cat", "我的", "我的"]


def test_one_prompt_has_one_text_and_several_have_a_list(model):
    one = model.generate("the cat", tokens=5)
    assert (one.prompt, one.tokens <= 5) == ("the cat", True)
    assert model.generate(["the cat"], tokens=5) == [one]
    both = model.generate("the cat", tokens=5, n=2)
    assert (len(both), both[0]) == (2, one)
    assert model.score(["the cat", "a bird"]) == [model.score("the cat"), model.score("a bird")]


def test_prompts_come_from_a_file_one_on_each_line(plm, decoder, model, tmp_path):
    (tmp_path / "prompts.txt").write_text("the cat\n\na bird\n", encoding="utf-8")
    reported = plm("generate", decoder, "--file", tmp_path / "prompts.txt", "--temperature", 0, "--json").json
    assert [text["prompt"] for text in reported["texts"]] == ["the cat", "a bird"]
    assert reported["texts"][0]["text"] == model.generate("the cat", temperature=0).text


def test_a_stream_from_python_is_the_text(model):
    pieces = list(model.stream("the cat", tokens=12, temperature=0))
    assert "".join(pieces) == model.generate("the cat", tokens=12, temperature=0).text
    assert len(pieces) > 1
    with pytest.raises(PlmError, match=r"model\.stream generates one text; found n=2"):
        model.stream("the cat", n=2)


def test_no_prompts_from_python_give_no_texts(model):
    assert model.generate([]) == []


@pytest.mark.parametrize(("given", "found"), [(None, "None"), (5, "an int (5)")])
def test_what_is_no_prompt_is_refused_without_the_name_of_another_verb(model, given, found):
    with pytest.raises(InputError) as caught:
        model.generate(given)
    assert str(caught.value) == f"Give a text or a list of texts; found {found}."


def test_greedy_text_is_what_reading_everything_again_for_each_token_gives(model):
    import torch

    from plmkit.data.batch import Batch, Side

    prompt = model.tokenizer.encode("the cat")
    row = model.engine.sequence("the cat", prompt, plmkit_writing(tokens=20), 0, 0)
    list(model.engine.decode([row], plmkit_writing(tokens=20)))
    read = list(prompt)
    with torch.inference_mode():
        for token in row.tokens:
            tokens = torch.tensor([read])
            batch = Batch(
                source=Side(tokens=tokens, visible=torch.ones_like(tokens).bool(), segments=torch.zeros_like(tokens))
            )
            hidden = model.network.model(batch).hidden[0, -1:]
            assert int(model.engine.model.logits(hidden).argmax()) == token
            read.append(token)


def plmkit_writing(**asked):
    from plmkit.generation.options import GenerationOptions

    return GenerationOptions(temperature=0, **asked)


def test_a_stop_string_that_never_comes_is_reported_and_nothing_is_lost(plm, decoder, model):
    ran = plm("generate", decoder, "the cat", "--tokens", 6, "--stop", "never this")
    assert ran.code == 2
    assert ran.out == model.generate("the cat", tokens=6).whole + "\n"
    assert "No stop string was generated: the text ends after 6 tokens." in ran.err
    assert len(ran.err.splitlines()) <= 3


def test_a_full_context_is_no_reason_to_ask_for_more_tokens(plm, decoder):
    ran = plm("generate", decoder, "the cat", "--tokens", 500, "--top-k", 3, "--seed", 1, "--stop", "never this")
    assert ran.code == 2
    assert "The context of this model is 48 tokens" in ran.err
    assert "Shorten the prompt, or use another --stop" in ran.err and "--tokens" not in ran.err


def test_a_stop_string_that_comes_ends_the_text_before_it(plm, decoder, model):
    whole = model.generate("the cat", tokens=20, temperature=0).text
    stop = whole[4:7]
    ran = plm("generate", decoder, "the cat", "--tokens", 20, "--temperature", 0, "--stop", stop)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"the cat{whole[: whole.index(stop)]}\n"


def test_a_full_context_is_reported_and_a_text_that_the_model_ends_is_not(plm, decoder, model):
    texts = {seed: model.generate("the cat", tokens=500, seed=seed) for seed in range(30)}
    reported = "! The context of this model is 48 tokens, including the prompt: the text ends after {} of 500 tokens.\n"
    for ended, said in (("context", reported), ("end", "")):
        seed = next(seed for seed, text in texts.items() if text.ended == ended)
        ran = plm("generate", decoder, "the cat", "--tokens", 500, "--seed", seed)
        assert (ran.code, ran.out) == (0, texts[seed].whole + "\n")
        assert ran.err == said.format(texts[seed].tokens)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([""], "The prompt is empty. Give a text to continue, or <|endoftext|> to begin a new text."),
        ([], "The prompt is missing."),
        (["cat " * 200], "tokens, but the context of this model is 48 tokens"),
        (["the cat", "--top-p", 0], "above 0 and at most 1; found 0"),
        (["the cat", "--top-p", 1.5], "above 0 and at most 1; found 1.5"),
        (["the cat", "--top-k", 0], "top-k must be a whole number, 1 or more"),
        (["the cat", "--temperature", -1], "temperature must be a finite number, 0 or more"),
        (["the cat", "--tokens", 0], "tokens must be a whole number, 1 or more"),
        (["the cat", "--tokens", 10**18], "tokens can be at most 1,000,000; found 1,000,000,000,000,000,000."),
        (["the cat", "--n", 10**9], "n can be at most 100,000; found 1,000,000,000."),
        (["the cat", "--beams", 10**9], "beams can be at most 1,000; found 1,000,000,000."),
        (
            ["the cat", "--beams", 2, "--length-penalty", 1e308],
            "length-penalty must be between -10 and 10; found 1e+308.",
        ),
        (["the cat", "--seed", "1e30"], "Invalid value for '--seed'"),
        (["the cat", "--stop", ""], "A stop string is empty"),
        (["the cat", "--beams", 3, "--temperature", 1], "Leave out one or the other"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(plm, decoder, asked, said):
    ran = plm("generate", decoder, *asked)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.splitlines()) <= 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_device_is_reported(plm, decoder, monkeypatch):
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        ran = plm("generate", decoder, "the cat", "--tokens", 2)
    reported = "plm: The output cannot be written: No space left on device. Free some space, or write elsewhere.\n"
    assert (ran.code, ran.err) == (2, reported)


@pytest.mark.parametrize(
    "extreme",
    [
        ("--top-k", 10**9), ("--temperature", 1e-300), ("--temperature", 1e300), ("--top-p", 1e-300), ("--seed", -1),
        ("--seed", 10**30), ("--beams", 2, "--length-penalty", 10), ("--beams", 2, "--length-penalty", -10),
    ],
)  # fmt: skip
def test_what_is_extreme_but_can_be_is_written(plm, decoder, extreme):
    ran = plm("generate", decoder, "the cat", "--tokens", 4, *extreme)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("the cat")


def test_a_masked_model_refuses_to_generate_and_says_what_to_use(plm, pretrained):
    ran = plm("generate", pretrained, "the cat")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot generate" in ran.err and "plm fill" in ran.err and "gpt2-mini" in ran.err
    assert len(ran.err.splitlines()) <= 3


def test_each_line_gets_its_log_probability_and_perplexity(plm, decoder, model, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("the cat sees a house.\n\nhouse a sees cat the.\n", encoding="utf-8")
    ran = plm("score", decoder, file)
    assert ran.code == 0
    head, first, blank, second = (line.split("\t") for line in ran.out.splitlines())
    assert head == ["text", "tokens", "log_probability", "perplexity"]
    assert blank == ["", "0", "", ""]
    found = model.score("the cat sees a house.")
    assert first[1:] == [str(found.tokens), f"{found.log_probability:.6f}".rstrip("0"), first[3]]
    assert float(first[3]) == pytest.approx(math.exp(-found.log_probability / found.tokens), abs=1e-5)
    assert float(first[2]) > float(second[2])  # words in their order are likelier
    reported = plm("score", decoder, file, "--json").json
    assert reported["all"]["tokens"] == int(first[1]) + int(second[1])
    assert reported["all"]["log_probability"] == pytest.approx(float(first[2]) + float(second[2]), abs=1e-4)


def test_the_score_of_a_masked_model_is_called_a_pseudo_one(plm, pretrained, tmp_path):
    file, out = tmp_path / "texts.jsonl", tmp_path / "scores.jsonl"
    file.write_text('{"text": "the cat sees a house."}\n', encoding="utf-8")
    ran = plm("score", pretrained, file, "--out", out)
    assert (ran.code, ran.out) == (0, "")
    assert "pseudo-perplexity" in ran.err
    found = plmkit.load(pretrained, device="cpu").score("the cat sees a house.")
    assert f'"pseudo_log_probability": {round(found.pseudo_log_probability, 6)}' in out.read_text(encoding="utf-8")


def test_texts_that_a_masked_model_cannot_read_to_their_end_are_reported(plm, pretrained, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("the cat sees a house.\n" + "the cat sees a house. " * 100 + "\n", encoding="utf-8")
    ran = plm("score", pretrained, file)
    assert ran.code == 0
    assert "1 of 2 texts are longer than 64 tokens and were truncated" in ran.err


def test_scores_are_not_written_over_what_is_read(plm, decoder, tmp_path):
    file = tmp_path / "texts.tsv"
    file.write_text("text\nthe cat\n", encoding="utf-8")
    ran = plm("score", decoder, file, "--out", file)
    assert ran.code == 2 and "is the input file and would be overwritten" in ran.err
    assert file.read_text(encoding="utf-8") == "text\nthe cat\n"


def test_a_task_is_solved_by_prompting_and_trains_nothing(plm, decoder, rows_file):
    before = (decoder / "model.safetensors").read_bytes()
    ran = plm("prompt", decoder, "--task", rows_file, "--shots", 1, "--limit", 5, "--labels", "good=fine")
    assert ran.code == 0
    assert "classify, 1 shots, 5 rows" in ran.out and "accuracy" in ran.out
    reported = plm(
        "prompt", decoder, "--task", rows_file, "--shots", 9, "--limit", 5, "--labels", "good=fine", "--json"
    )
    assert set(reported.json["expected"]) <= {"fine", "bad"} and len(reported.json["answers"]) == 5
    assert f"Only {reported.json['shots']} of 9 demonstrations fit" in reported.err
    assert (decoder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--tokens", 0], "tokens must be a whole number, 1 or more"),
        (["--beams", 2], "Leave out beams, which would have no effect"),
        (["--labels", "7=x"], "--labels has a word for 7"),
    ],
)
def test_what_would_be_ignored_by_a_task_is_refused(plm, decoder, rows_file, asked, said):
    ran = plm("prompt", decoder, "--task", rows_file, *asked)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and len(ran.err.splitlines()) <= 3


def test_a_masked_model_refuses_prompts_too(plm, pretrained, rows_file):
    ran = plm("prompt", pretrained, "--task", rows_file)
    assert ran.code == 2 and "cannot generate" in ran.err
