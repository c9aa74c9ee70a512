"""Translations of a toy language: all of them right, in the order of their sources, from files of every kind."""

import json

import pytest

import plmkit
from plmkit.errors import PlmError, SettingError, TruncationWarning
from plmkit.inference.translating import Target, by_length, word_at

SOURCE, TARGET = "the old cat sees a red dog", "le chat vieux voit un chien rouge"


@pytest.fixture(scope="module")
def model(translating):
    return plmkit.load(translating)


def texts(found):
    return [one.text for one in found]


def test_a_toy_language_is_translated_as_it_was_taught(model, language):
    _, new, _ = language
    found = texts(model.translate([source for source, _ in new]))
    right = sum(text == target for text, (_, target) in zip(found, new, strict=True))
    assert len(new) == 50 and right >= 45


def test_where_bfloat16_is_faster_products_are_in_it_and_translations_hardly_change(translating, language, monkeypatch):
    sources = [source for source, _ in language[1]]
    plain = plmkit.load(translating).translate(sources)
    monkeypatch.setattr("plmkit.training.device.bfloat16_gain", lambda *_: 3.0)
    fast = plmkit.load(translating)
    found = fast.translate(sources)
    kinds = {str(weight.dtype) for weight in fast.translator.model.model.parameters()}
    assert kinds == {"torch.float32", "torch.bfloat16"}
    assert sum(one.text == other.text for one, other in zip(plain, found, strict=True)) >= 48
    assert all(abs(one.score - other.score) < 0.05 for one, other in zip(plain, found, strict=True))
    assert {str(weight.dtype) for weight in fast.network.parameters()} == {"torch.float32"}  # as loaded


def test_an_unknown_word_is_replaced_by_the_word_of_the_source_that_it_attends_to(model, language):
    _, _, named = language
    vocabulary = model.tokenizer.vocabulary
    assert vocabulary.unknown in model.tokenizer.encode(named[0][0])
    with pytest.warns(UserWarning, match="unknown to the model's vocabulary"):
        found = texts(model.translate([source for source, _ in named]))
    right = sum(text == target for text, (_, target) in zip(found, named, strict=True))
    assert right >= 18
    assert not any(vocabulary.tokens[vocabulary.unknown] in text for text in found)


def test_a_translation_of_the_maximum_length_has_its_unknown_words_replaced_too(model):
    translator = model.translator
    (source,) = translator.read(["zork7 zork7"])
    target = Target(20, translator.vocabulary.end, (translator.vocabulary.unknown,) * 20, "length")
    assert list(translator.written([(source, target)])) == [" ".join(["zork7"] * 20)]


def test_one_beam_is_greedy_decoding_and_greedy_decoding_is_repeatable(model, language):
    import torch

    source = language[1][0][0]
    translator = model.translator
    (row,) = translator.read([source])
    tokens: list[int] = []
    with torch.inference_mode():
        while True:  # without a cache: everything is read again for each token
            hidden = model.network.model(translator.pairs([row.tokens], [tokens])).hidden
            token = int(translator.model.logits(hidden[:, -1]).argmax())
            if token == translator.vocabulary.end:
                break
            tokens.append(token)
    first = model.translate(source, beams=1)
    assert first.text == model.tokenizer.decode(tokens)
    assert first == model.translate(source, beams=1)


def test_one_text_gets_one_answer_and_a_list_gets_a_list_in_its_order(model):
    sources = ["the red dog hears a small bird", SOURCE, "a red dog", SOURCE]
    many = model.translate(sources)
    assert [one.source for one in many] == sources
    assert texts(many) == [model.translate(source).text for source in sources]
    assert many[1].text == TARGET
    assert (many[1].tokens, many[1].ended) == (7, "end")
    assert model.translate([]) == []


def test_the_best_n_come_best_first(model):
    best = model.translate(SOURCE, n_best=3)
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    assert best[0] == model.translate(SOURCE)
    assert len({one.text for one in best}) == 3
    both = model.translate([SOURCE, SOURCE], n_best=2)
    assert [texts(one) for one in both] == [texts(best[:2])] * 2


def test_a_score_is_the_log_probability_of_the_tokens_with_the_length_penalty(model):
    found = model.translate(SOURCE, length_penalty=0.6)
    total, tokens = model.translator.loss([SOURCE], [found.text])
    assert tokens == 8  # the end included
    assert found.score == pytest.approx(-total / ((5 + 8) / 6) ** 0.6, abs=1e-4)


def test_a_blank_text_has_a_blank_translation(model):
    blank, other = model.translate(["  ", SOURCE])
    assert (blank.text, blank.tokens, blank.score) == ("", 0, None)
    assert other.text == TARGET


def test_a_source_that_is_too_long_is_cut_at_its_end_and_a_target_at_the_maximum(model):
    long = " ".join(["the old cat sees a red dog"] * 4)
    with pytest.warns(
        TruncationWarning,
        match="1 of 2 sources are longer than the model's 20 tokens and were cut at their end; the first is number 1",
    ):
        found = model.translate([long, SOURCE])
    kept = " ".join(long.split()[: 20 - len(model.tokenizer.vocabulary.source_row([]))])
    assert found[0].text == model.translate(kept).text
    assert found[0].tokens <= 20
    assert found[1].text == TARGET


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"beams": 0}, "beams must be"),
        ({"n_best": 5}, "4 beams find at most 4"),
        ({"beams": 2.5}, "beams cannot be 2.5"),
    ],
)
def test_options_that_make_no_sense_are_refused(model, asked, said):
    with pytest.raises(SettingError, match=said):
        model.translate(SOURCE, **asked)


def test_a_model_without_a_decoder_is_refused(plm, pretrained):
    with pytest.raises(PlmError, match="is not an encoder–decoder, so it cannot translate"):
        plmkit.load(pretrained).translate("a text")
    ran = plm("translate", pretrained, "a text")
    assert (ran.code, ran.out) == (2, "")
    assert "plm pretrain transformer-mini PAIRS.tsv --out DIR" in ran.err


def test_a_text_on_the_command_line(plm, translating):
    assert plm("translate", translating, SOURCE).out == f"{TARGET}\n"
    lines = plm("translate", translating, SOURCE, "--n-best", 2).out.splitlines()
    assert lines[0].split("\t")[1] == TARGET and len(lines) == 2


def test_blank_lines_at_the_end_stay_lines_whatever_the_name_of_the_file(plm, translating, tmp_path):
    for name in ("lines.txt", "lines.en"):
        (tmp_path / name).write_text(f"{SOURCE}\n\n\n", encoding="utf-8")
        assert plm("translate", translating, tmp_path / name).out == f"{TARGET}\n\n\n"
        ran = plm("translate", translating, tmp_path / name, "--no-header")
        assert ran.code == 2 and "--no-header is for .csv and .tsv" in ran.err


def test_lines_become_lines_and_a_blank_one_stays_in_its_place(plm, translating, tmp_path):
    for name in ("lines.txt", "lines.en"):
        file = tmp_path / name
        file.write_text(f"{SOURCE}\n\nthe red dog hears a small bird\n", encoding="utf-8")
        ran = plm("translate", translating, file)
        assert ran.out.splitlines() == [TARGET, "", "le chien rouge entend un oiseau petit"]
        assert "1 row without text, which get no translation" in ran.err
    out = tmp_path / "out.txt"
    assert plm("translate", translating, file, "--out", out).out == ""
    assert out.read_text(encoding="utf-8") == ran.out


@pytest.mark.parametrize(
    ("name", "content", "more"),
    [
        ("pairs.tsv", f"en\tfr\n{SOURCE}\tle\n", ()),
        ("pairs.csv", f"id,src,tgt\n7,{SOURCE},le\n", ()),
        ("one.csv", f"anything\n{SOURCE}\n", ()),
        ("rows.jsonl", json.dumps({"n": 1, "原文": SOURCE}) + "\n", ()),
        ("odd.tsv", f"n\twords\n1\t{SOURCE}\n", ("--source", "words")),
        ("bare.tsv", f"{SOURCE}\tle chat\n{SOURCE}\tle chat\n", ()),
    ],
)
def test_the_source_of_a_table_is_found_by_its_name(plm, translating, tmp_path, name, content, more):
    file, out = tmp_path / name, tmp_path / "out.jsonl"
    file.write_text(content, encoding="utf-8")
    assert plm("translate", translating, file, "--out", out, *more).code == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {row["translation"] for row in rows} == {TARGET}
    assert SOURCE in rows[0].values()


def test_json_has_every_translation_with_its_rank(plm, translating):
    found = plm("translate", translating, SOURCE, "--n-best", 2, "--json").json["translations"]
    assert [(one["rank"], one["source"]) for one in found] == [(1, SOURCE), (2, SOURCE)]
    assert found[0]["text"] == TARGET and found[0]["score"] > found[1]["score"]


def test_a_table_repeats_a_row_for_each_of_its_translations(plm, translating, tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text(f"en\tfr\n{SOURCE}\t{TARGET}\n", encoding="utf-8")
    lines = [line.split("\t") for line in plm("translate", translating, file, "--n-best", 2).out.splitlines()]
    assert lines[0] == ["en", "fr", "rank", "translation", "score"]
    assert [line[:3] for line in lines[1:]] == [[SOURCE, TARGET, "1"], [SOURCE, TARGET, "2"]]
    assert lines[1][3] == TARGET
    ran = plm("translate", translating, file, "--n-best", 2, "--out", tmp_path / "best.tsv")
    assert "2 translations written to" in ran.err


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("a\tb\tc\n1\t2\t3\n", (), "has no column that is known as the source"),
        ("en\tfr\nx\ty\n", ("--source", "de"), "has no column 'de'"),
        ("en\tfr\n \ty\n", (), "has no text: every row is blank"),
        ("en\tfr\nx\ty\n", ("--out", "a.docx"), "translations are written as .txt, .tsv"),
        ("en\tfr\nx\ty\n", ("--n-best", 9), "4 beams find at most 4"),
    ],
)
def test_bad_input_gets_a_sentence(plm, translating, tmp_path, content, more, said):
    file = tmp_path / "pairs.tsv"
    file.write_text(content, encoding="utf-8")
    ran = plm("translate", translating, file, *more)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_text_is_refused(plm, translating, text):
    ran = plm("translate", translating, text)
    assert (ran.code, ran.out, ran.err) == (2, "", "plm: The text is empty. Give a text, a file, or - for stdin.\n")


def test_sources_of_like_length_share_a_batch_and_empty_ones_are_left_out():
    assert by_length([3, 0, 9, 3], beams=4) == [[2, 0, 3]]
    assert by_length([1000, 5, 1000, 1000], beams=4) == [[0, 2], [3, 1]]
    assert [len(batch) for batch in by_length([2] * 100, beams=4)] == [64, 36]


@pytest.mark.parametrize(
    ("text", "begin", "end", "word"),
    [
        ("an unknown word", 5, 8, "unknown"),
        ("我的狗", 1, 2, "的"),
        ("see: zork7!", 5, 6, "zork7"),
        ("zork7!", 5, 6, "!"),
    ],
)
def test_the_word_around_a_token(text, begin, end, word):
    assert word_at(text, begin, end) == word
