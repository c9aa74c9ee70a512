"""`plmkit.load(...)`: the same verbs on run folders and on Hugging Face folders."""

import inspect
import math
import subprocess
import sys
import warnings
from dataclasses import fields, replace

import numpy as np
import pandas
import pytest
import torch
from safetensors.torch import load_file

import plmkit
from plmkit.data.reading.columns import Columns
from plmkit.errors import InputError, PlmError, SettingError, TruncationWarning, UnknownTokensWarning
from plmkit.generation.options import GenerationOptions
from plmkit.inference.model import Model
from plmkit.tasks.framing import batch_of, frame

TIDE = "潮水[MASK][MASK]，就知道谁没穿裤子。"


@pytest.fixture(scope="module", params=["pretrained", "hub_folder"])
def model(request) -> Model:
    return plmkit.load(request.getfixturevalue(request.param), device="cpu")


@pytest.fixture(scope="module")
def classifier(finetuned) -> Model:
    return plmkit.load(finetuned, device="cpu")


@torch.no_grad()
def logits_at(model: Model, text: str) -> tuple[np.ndarray, torch.Tensor]:
    """Tokens and vocabulary logits of one text, without the model's own batching."""
    vocabulary = model.tokenizer.vocabulary
    row = frame(np.array(model.tokenizer.encode(text)), None, vocabulary, 64)
    hidden = model.network.model(batch_of([row], vocabulary)).hidden[0]
    return row.tokens, model.network.heads["masked_lm"].vocabulary(hidden)


def test_every_blank_is_filled_with_the_most_likely_tokens_best_first(model):
    text = "the cat [MASK] the [MASK]."
    blanks = model.fill(text, top=4)
    assert [len(blank) for blank in blanks] == [4, 4]
    tokens, logits = logits_at(model, text)
    vocabulary = model.tokenizer.vocabulary
    places = np.flatnonzero(tokens == vocabulary.mask)
    for place, blank in zip(places, blanks, strict=True):
        scores = logits[place, : len(vocabulary)].clone()
        scores[list(vocabulary.special)] = -torch.inf
        best = scores.softmax(-1).topk(4)
        assert [candidate.token for candidate in blank] == [vocabulary.tokens[i] for i in best.indices]
        assert [candidate.probability for candidate in blank] == pytest.approx(best.values.tolist(), rel=1e-4)


def test_the_probabilities_of_all_words_sum_to_one_and_no_special_token_is_offered(model):
    (blank,) = model.fill("a [MASK] sees the moon.", top=10_000)
    vocabulary = model.tokenizer.vocabulary
    offered = len(blank) + len(vocabulary.special)
    assert offered == len(vocabulary)
    assert sum(candidate.probability for candidate in blank) == pytest.approx(1, abs=1e-5)
    assert not {candidate.token for candidate in blank} & {vocabulary.tokens[i] for i in vocabulary.special}


def test_a_candidate_shows_the_text_with_its_blank_filled(model):
    (blank,) = model.fill("The cat [MASK] the river.", top=10_000)
    texts = {candidate.token: candidate.text for candidate in blank}
    assert texts["sees"] == "the cat sees the river."
    assert texts["##s"] == "the cats the river."
    assert texts["."] == "the cat. the river."


def test_the_cloze_of_the_tide_encodes_by_character_and_is_filled(model):
    vocabulary = model.tokenizer.vocabulary
    tokens = vocabulary.names(model.tokenizer.encode(TIDE))
    assert tokens == [*"潮水", "[MASK]", "[MASK]", *"，就知道谁没穿裤子。"]
    blanks = model.fill(TIDE, top=3)
    assert [len(blank) for blank in blanks] == [3, 3]
    assert all(0 < candidate.probability <= 1 for blank in blanks for candidate in blank)
    assert model.score("潮水退了，就知道谁没穿裤子。").tokens == 14


def test_the_score_of_a_text_equals_a_loop_that_masks_each_token(model):
    text = "the old man paints a red car."
    pieces = model.tokenizer.vocabulary.names(model.tokenizer.encode(text))
    total = 0.0
    for place in range(len(pieces)):
        numbers = model.tokenizer.encode(text)
        true = numbers[place]
        numbers[place] = model.tokenizer.vocabulary.mask
        row = frame(np.array(numbers), None, model.tokenizer.vocabulary, 64)
        with torch.no_grad():
            hidden = model.network.model(batch_of([row], model.tokenizer.vocabulary)).hidden[0, place + 1]
            total += float(model.network.heads["masked_lm"].vocabulary(hidden).log_softmax(-1)[true])
    found = model.score(text)
    assert found.tokens == len(pieces)
    assert found.pseudo_log_probability == pytest.approx(total, rel=1e-5)
    assert found.pseudo_perplexity == pytest.approx(math.exp(-total / len(pieces)), rel=1e-5)


def test_a_text_longer_than_a_batch_of_blanks_scores_the_same(model):
    text = " ".join(["the cat sees a house."] * 7)
    found = model.score(text)
    assert 32 < found.tokens <= 46
    assert math.isfinite(found.pseudo_log_probability)


def test_a_sentence_vector_is_the_mean_over_all_tokens_and_token_vectors_leave_out_the_special_ones(model):
    texts = ["the cat sees a house.", "我的狗很可爱。", ("a bird", "the sea")]
    by_token, by_text = model.embed(texts, level="token"), model.embed(texts)
    assert by_text.shape == (3, 32)
    assert by_text.dtype == np.float32
    vocabulary = model.tokenizer.vocabulary
    for vectors, mean, text in zip(by_token, by_text, texts, strict=True):
        parts = [np.array(model.tokenizer.encode(part)) for part in ([text] if isinstance(text, str) else text)]
        row = frame(parts[0], parts[1] if len(parts) > 1 else None, vocabulary, 64)
        with torch.no_grad():
            hidden = model.network.model(batch_of([row], vocabulary)).hidden[0].numpy()
        assert len(hidden) == sum(map(len, parts)) + 1 + len(parts)
        np.testing.assert_allclose(mean, hidden.mean(0), atol=1e-6)
        words = ~np.isin(row.tokens, [vocabulary.cls, vocabulary.sep])
        np.testing.assert_allclose(vectors, hidden[words], atol=1e-5)


def test_vectors_do_not_depend_on_the_company_or_the_order(model):
    texts = ["the cat sees a house.", "a", "my friend hears the sea. my friend hears the moon.", "企鹅不擅长飞行。"]
    together = model.embed(texts)
    np.testing.assert_allclose(model.embed(texts[::-1])[::-1], together, atol=2e-6)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.embed([text])[0], vector, atol=2e-6)


def test_no_texts_give_no_vectors(model):
    assert model.embed([]).shape == (0, 32)
    assert model.embed([], level="token") == []


def test_a_text_without_a_single_token_has_a_vector_still(model):
    assert np.isfinite(model.embed([" "])).all()


def test_texts_that_are_too_long_are_cut_and_counted(model):
    long = "the cat sees a house. " * 30
    reported = rf"{{}} texts are longer than {model.max_length} tokens and were truncated"
    with pytest.warns(TruncationWarning, match=reported.format("2 of 3")) as caught:
        model.embed([long, "short", long])
    assert (len(caught), caught[0].filename) == (1, __file__)
    model.embed(["short"])
    with pytest.warns(TruncationWarning, match=reported.format("1 of 1")):
        assert len(model.embed(long, level="token")) == model.max_length - 2
    with pytest.warns(TruncationWarning, match=reported.format("1 of 2")) as caught:
        assert [score.tokens for score in model.score([long, "short"])] == [model.max_length - 2, 5]
    assert (len(caught), caught[0].filename) == (1, __file__)


def test_a_prediction_of_a_text_that_is_cut_is_warned_about_once(classifier):
    long = "the cat sees a house. " * 30
    with pytest.warns(TruncationWarning, match="2 of 3 texts are longer than 64 tokens") as caught:
        classifier.predict([long, "short", long], batch_size=1)
    assert (len(caught), caught[0].filename) == (1, __file__)


def test_a_blank_in_a_text_that_is_too_long_is_an_error_since_it_may_be_cut_off(model):
    with pytest.raises(InputError, match=f"reads at most {model.max_length - 2}"):
        model.fill("the cat sees a house. " * 30 + "[MASK]")


def test_a_text_without_a_blank_is_refused(model):
    with pytest.raises(InputError, match=r"The text has no \[MASK\]"):
        model.fill("the cat sees a house.")


def test_a_text_has_one_answer_and_a_list_a_list(model, classifier):
    text, other = "the cat sees a house.", "a bird"
    assert model.embed(text).shape == (32,)
    assert np.array_equal(model.embed(text), model.embed([text])[0])
    assert np.array_equal(model.embed(text, level="token"), model.embed([text], level="token")[0])
    assert classifier.predict(text) == classifier.predict([text])[0]
    assert classifier.predict({"text": text}) == classifier.predict(text)
    assert model.score([text, other]) == [model.score(text), model.score(other)]
    blanks = ["a [MASK].", "the [MASK] [MASK]."]
    assert model.fill(blanks, top=2) == [model.fill(blanks[0], top=2), model.fill(blanks[1], top=2)]
    assert [[len(blank) for blank in found] for found in model.fill(blanks, top=2)] == [[2], [2, 2]]
    assert (model.score([]), model.fill([]), classifier.predict([])) == ([], [], [])


@pytest.mark.parametrize("name", ["text", "review", "Text"])
def test_the_text_column_of_a_data_frame_is_read(name, classifier, model):
    texts = ["the cat sees a house.", "a bird calls the moon.", "the king."]
    frame = pandas.DataFrame({"id": [7, 8, 9], name: texts, "label": ["?", None, "bad"]})
    assert classifier.predict(frame) == classifier.predict(texts)
    assert np.array_equal(model.embed(frame), model.embed(texts))
    assert model.score(frame[:1]) == [model.score(texts[0])]


def test_of_a_data_frame_the_column_that_the_model_was_trained_on_is_read(finetuned):
    classifier = plmkit.load(finetuned, device="cpu")
    texts, others = ["the cat sees a house.", "the king."], ["a bird calls the moon.", "the sea."]
    frame = pandas.DataFrame({"text": others, "headline": texts})
    wanted = classifier.predict(texts), classifier.embed(texts)
    (task,) = classifier.tasks.values()
    classifier.tasks[task.name] = replace(task, columns=Columns(text="headline", label="kind"))
    assert classifier.predict(frame) == wanted[0]
    assert np.array_equal(classifier.embed(frame), wanted[1])
    classifier.tasks[task.name] = replace(task, columns=Columns(text="2", label="1", header=False))  # places, not names
    numbered = pandas.DataFrame({"text": texts, 2: others})
    assert classifier.predict(numbered) == wanted[0]


def test_a_data_frame_without_a_text_column_is_refused_and_so_is_one_with_two(classifier):
    with pytest.raises(
        InputError, match=r"DataFrame has no column text.*number, stars\.\nRename the right one\."
    ) as says:
        classifier.predict(pandas.DataFrame({"number": [1, 2], "stars": [3, 4]}))
    assert "--text" not in str(says.value)  # an option of the command line
    twice = pandas.DataFrame([["a", "b"]], columns=["text", "text"])
    with pytest.raises(InputError, match="The DataFrame has two columns named 'text'"):
        classifier.predict(twice)


def test_the_pairs_of_a_data_frame_are_read(model):
    frame = pandas.DataFrame({"text_a": ["a cat", "the sea"], "text_b": ["a dog", "a road"]})
    assert np.array_equal(model.embed(frame), model.embed([("a cat", "a dog"), ("the sea", "a road")]))


def test_texts_may_be_a_series_or_an_array(classifier, model):
    texts = ["the cat sees a house.", "a bird calls the moon."]
    for many in (pandas.Series(texts, index=[5, 3]), np.array(texts), np.array(texts, dtype=object), tuple(texts)):
        assert classifier.predict(many) == classifier.predict(texts)
        assert model.score(many) == model.score(texts)
    assert classifier.predict(np.array(texts[0])) == classifier.predict(texts[0])
    with pytest.raises(InputError, match="Row 1 is an int"):
        classifier.predict(np.array([1, 2]))


def test_a_blank_text_has_an_empty_prediction_in_its_place(classifier):
    text = "the cat sees a house."
    for blank in ("", " \n\u3000"):
        before, nothing, after = classifier.predict([text, blank, "a bird"])
        assert (nothing.label, nothing.probability, nothing.probabilities) == (None, None, None)
        assert before.probabilities == pytest.approx(classifier.predict(text).probabilities, abs=1e-6)
        assert after.label in ("bad", "good")


@pytest.mark.parametrize("size", [1, 2, 64])
def test_the_size_of_a_batch_changes_no_answer(size, model, classifier, capsys):
    texts = ["the cat sees a house.", "a", "my friend hears the sea.", "企鹅不擅长飞行。", "the king calls."]
    np.testing.assert_allclose(model.embed(texts, batch_size=size, progress=True), model.embed(texts), atol=2e-6)
    ours = [p.probabilities["good"] for p in classifier.predict(texts, batch_size=size, progress=True)]
    assert ours == pytest.approx([p.probabilities["good"] for p in classifier.predict(texts)], abs=1e-6)
    assert capsys.readouterr().out == ""


def test_texts_are_computed_in_batches(classifier):
    sizes: list[int] = []
    handle = classifier.network.model.register_forward_pre_hook(lambda _, given: sizes.append(given[0].examples))
    classifier.predict(["a cat"] * 5, batch_size=2)
    handle.remove()
    assert sizes == [2, 2, 1]
    with pytest.raises(SettingError, match="batch_size must be a whole number, 1 or more; found 0"):
        classifier.predict(["a cat"], batch_size=0)


def test_progress_is_a_bar_on_stderr(model, classifier, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    classifier.predict(["a cat"] * 5, progress=True)
    assert "predicting" in capsys.readouterr().err
    model.score(["a cat"] * 2, progress=True)
    assert "scoring" in capsys.readouterr().err
    classifier.predict(["a cat"] * 5)
    model.score(["a cat"] * 2)
    assert capsys.readouterr().err == ""


def test_a_model_shows_what_it_is(pretrained, finetuned):
    size = sum(weight.numel() for weight in load_file(pretrained / "model.safetensors").values())
    vocabulary = (pretrained / "vocab.txt").read_text(encoding="utf-8").count("\n")
    shape = "Encoder, 2 layers of width 32"
    assert repr(plmkit.load(pretrained)) == (
        f"<Model {pretrained}: {shape}, {size:,} parameters, vocabulary of {vocabulary} tokens, pretrained>"
    )
    shown = repr(plmkit.load(finetuned))
    assert shown.startswith(f"<Model {finetuned}: {shape}, ")
    assert shown.endswith(f" parameters, vocabulary of {vocabulary} tokens, classify: bad, good>")


@pytest.mark.parametrize("verb", ["fill", "embed", "predict", "score", "generate", "stream"])
def test_every_verb_says_what_it_takes_and_gives(verb):
    said, takes = getattr(Model, verb).__doc__, inspect.signature(getattr(Model, verb)).parameters
    reported = said[said.index("Args:") : said.index("Returns:")]
    wanted = {name for name, one in takes.items() if one.kind is not one.VAR_KEYWORD} - {"self"}
    if verb == "generate":
        wanted |= {field.name for field in fields(GenerationOptions)}
    for name in wanted:
        assert f"\n            {name}: " in reported


def test_loading_says_what_it_takes_and_gives():
    said = plmkit.load.__doc__
    reported = said[said.index("Args:") : said.index("Returns:")]
    assert all(f"\n        {name}: " in reported for name in inspect.signature(plmkit.load).parameters)


def test_what_plmkit_offers_can_be_listed_without_loading_torch():
    code = "import sys, plmkit; assert {'load', '__version__'} <= set(dir(plmkit)) and 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_bad_input_is_a_value_error_for_callers_from_python(model):
    with pytest.raises(ValueError, match=r"The text has no \[MASK\]"):
        model.fill("the cat")


@pytest.mark.parametrize("mistake", [{"top": 0}, {"top": -1}])
def test_fewer_than_one_candidate_is_refused(model, mistake):
    with pytest.raises(SettingError, match="1 or more"):
        model.fill("a [MASK]", **mistake)


def test_an_unknown_level_is_refused(model):
    with pytest.raises(SettingError, match="'sentence' or 'token'"):
        model.embed(["a"], level="word")


def test_a_pretrained_model_cannot_predict_and_says_what_to_do(model):
    with pytest.raises(PlmError, match="plm finetune"):
        model.predict(["the cat sees a house."])


def test_a_fine_tuned_model_cannot_fill_blanks(classifier):
    with pytest.raises(PlmError, match="Use a pretrained masked language model"):
        classifier.fill("a [MASK]")


def test_a_prediction_has_a_label_and_probabilities_that_sum_to_one(classifier):
    for prediction in classifier.predict(["the cat sees a house.", "a bird calls the moon."]):
        assert list(prediction.probabilities) == ["bad", "good"]
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-6)
        assert prediction.probability == max(prediction.probabilities.values())
        assert prediction.probabilities[prediction.label] == prediction.probability


def test_predictions_do_not_depend_on_the_company_or_the_order(classifier):
    texts = ["the cat sees a house.", "a", "my friend hears the sea. my friend hears the moon.", "the king calls."]
    together = [p.probabilities["good"] for p in classifier.predict(texts)]
    backwards = [p.probabilities["good"] for p in classifier.predict(texts[::-1])][::-1]
    alone = [classifier.predict([text])[0].probabilities["good"] for text in texts]
    assert together == pytest.approx(backwards, abs=1e-6)
    assert together == pytest.approx(alone, abs=1e-6)


def test_rows_may_be_texts_or_rows_of_a_table(classifier):
    plain, row = classifier.predict(["the cat sees a house.", {"text": "the cat sees a house.", "label": "?"}])
    assert plain == row


def test_a_row_without_a_text_is_refused(classifier):
    with pytest.raises(InputError, match="found label"):
        classifier.predict([{"label": "good"}])


def test_a_pair_is_refused_by_a_model_of_single_texts(classifier):
    with pytest.raises(InputError, match="one text per row; row 2 has two"):
        classifier.predict(["a cat", ("a cat", "a dog")])


def test_loading_twice_gives_identical_outputs(pretrained):
    first, second = (plmkit.load(pretrained, device="cpu").embed(["the cat sees a house."]) for _ in range(2))
    assert np.array_equal(first, second)


def test_tied_weights_share_storage_after_loading(model):
    table = model.network.heads["masked_lm"].vocabulary._table[0].weight
    assert table.data_ptr() == model.network.model.embed.tokens.weight.data_ptr()


def test_importing_plmkit_and_its_command_line_does_not_import_torch():
    code = "import sys, plmkit, plmkit.cli; assert 'torch' not in sys.modules"  # seconds that `plm --help` has not
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_name_that_plmkit_has_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        plmkit.lode  # noqa: B018


@pytest.mark.parametrize("verb", ["fill", "score"])
def test_what_is_no_text_is_named_and_refused(model, verb):
    for given, found in ((5, "found an int (5)"), (None, "found None"), (["a", 2], "text 2 is an int (2)")):
        with pytest.raises(InputError) as caught:
            getattr(model, verb)(given)
        assert str(caught.value) == f"Give a text or a list of texts; {found}."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "Give a text or a list of texts; found an int (5)."),
        (None, "Give a text or a list of texts; found None."),
        (b"text", "Give a text or a list of texts; found a bytes."),
        (["a", None], "Row 2 is None. A row is a text, a pair of texts, or a dict with `text`."),
        ([("a", "b", "c")], "Row 1 is a tuple of 3. A row is a text, a pair of texts, or a dict with `text`."),
        ([("a", 2)], "Row 1 is a tuple of 2. A row is a text, a pair of texts, or a dict with `text`."),
        ([0.5], "Row 1 is a float (0.5). A row is a text, a pair of texts, or a dict with `text`."),
    ],
)
def test_rows_that_are_no_texts_are_named_and_refused(model, classifier, given, message):
    for verb in (model.embed, classifier.predict):
        with pytest.raises(InputError) as caught:
            verb(given)
        assert str(caught.value) == message


def test_rows_may_come_from_anything_that_can_be_walked_through(model):
    assert np.array_equal(model.embed(text for text in ("a cat", "a dog")), model.embed(["a cat", "a dog"]))


def test_a_number_of_candidates_that_is_no_whole_number_is_refused(model):
    for top, found in ((2.5, "2.5"), ("3", "a str"), (True, "a bool (True)")):
        with pytest.raises(SettingError, match="top must be a whole number, 1 or more; found") as caught:
            model.fill("a [MASK].", top=top)
        assert str(caught.value).endswith(f"found {found}.")


def test_a_model_is_loaded_from_a_folder_and_nothing_else(pretrained):
    with pytest.raises(InputError, match=r'plmkit.load\("runs/mine"\); found an int \(3\)'):
        plmkit.load(3)
    with pytest.raises(SettingError, match=r"is not available on this machine\. Use auto or cpu"):
        plmkit.load(pretrained, device=7.5)


def test_predicting_texts_of_unknown_tokens_warns_once_with_their_share(finetuned, plm, tmp_path):
    """[CLS] ж ж [SEP] and, of known tokens, [CLS] the cat [SEP]."""
    model = plmkit.load(finetuned, device="cpu")
    said = "25.0% of the tokens are unknown to the model's vocabulary: was it trained on text like this?"
    with pytest.warns(UnknownTokensWarning) as caught:
        model.predict(["ж ж", "the cat"])
    assert [str(one.message) for one in caught] == [said]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict("the cat sees a house.")
    (tmp_path / "texts.txt").write_text("ж ж\nthe cat\n", encoding="utf-8")
    ran = plm("predict", finetuned, tmp_path / "texts.txt")
    assert (ran.code, ran.err.count(f"! {said}")) == (0, 1)
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\nж ж\tgood\nthe cat\tbad\n", encoding="utf-8")
    assert f"! {said}" in plm("evaluate", finetuned, rows).err
