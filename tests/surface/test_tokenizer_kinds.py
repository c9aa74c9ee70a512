"""One recipe with each kind of tokenizer, from the command line: trained, filled, fine-tuned, opened by others."""

import pytest

from plmkit.tokenizers.tokenizer import load_tokenizer

BLANK = "the cat {} the river."


@pytest.mark.parametrize(("kind", "mask"), [("ByteBPE", "<mask>"), ("Unigram", "[MASK]")])
def test_a_recipe_takes_any_tokenizer(kind, mask, plm, mixed_corpus, tiny_settings, rows_file, tmp_path):
    out, made = tmp_path / "run", tmp_path / "task"
    chosen = ("--set", f"tokenizer={kind}", *tiny_settings)
    ran = plm("pretrain", "bert-tiny", mixed_corpus, "--out", out, "--steps", 4, *chosen)
    assert ran.code == 0, ran.err
    ours = load_tokenizer(out)
    assert ours.vocabulary.roles["mask"] == mask

    # a blank may be written as this tokenizer writes it, or as BERT's does
    found = [plm("fill", out, BLANK.format(blank), "--top", 3, "--json").json["blanks"] for blank in ("[MASK]", mask)]
    assert found[0] == found[1]
    assert [len(blank) for blank in found[0]] == [3]
    for candidate in found[0][0]:
        assert candidate["text"].startswith("the cat")
        assert candidate["text"].endswith(" the river.")
        assert candidate["token"].strip(" ▁") in candidate["text"]

    task = ("--task", "classify", "--train", rows_file, "--dev", rows_file, "--out", made)
    ran = plm("finetune", out, *task, "--set", "task.epochs=1", "--set", "run.threads=1")
    assert ran.code == 0, ran.err
    assert load_tokenizer(made).fingerprint() == ours.fingerprint()

    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(out)
    for text in ("The cat sees a 😀, doesn't it?", "我的狗很可爱。企鹅不擅长飞行！", "the 狗 finds 2 苹果"):
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)
