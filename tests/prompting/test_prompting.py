"""Prompts are built as the papers build them; likelihood chooses, generation answers by its first line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from toy_models import END, toy, written_shares

from plmkit.data.reading.columns import Columns
from plmkit.errors import InputError, SettingError
from plmkit.generation.engine import Engine
from plmkit.generation.likelihood import token_log_probabilities
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import GeneratedText
from plmkit.prompting.answering import PromptOptions, ask
from plmkit.prompting.tasks import PROMPT_KINDS, read_labels, read_task, read_tasks
from plmkit.prompting.templates import Template, line_end_of, prompt_of
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.unigram import ClosingUnigram
from plmkit.tokenizers.word_end_bpe import WordEndBPE


def written(path, rows: list[dict]):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def template(kind: str) -> Template:
    return Template(text=PROMPT_KINDS[kind].template, answer=PROMPT_KINDS[kind].answer)


def test_a_summary_is_prompted_by_tldr_after_whole_demonstrations():
    shots = [{"text": "A long story.", "summary": "Short."}]
    row = {"text": "Another story.", "summary": "?"}
    assert prompt_of(template("summarise"), shots, row) == "A long story.\nTL;DR: Short.\n\nAnother story.\nTL;DR:"
    assert prompt_of(template("summarise"), [], row) == "Another story.\nTL;DR:"


def test_a_translation_is_prompted_by_pairs():
    shots = [{"source": "a cat", "target": "eine Katze"}, {"source": "a dog", "target": "ein Hund"}]
    asked = prompt_of(template("translate"), shots, {"source": "a bird", "target": "?"})
    assert asked == "a cat = eine Katze\n\na dog = ein Hund\n\na bird ="


def test_a_line_with_only_a_missing_field_is_left_out():
    row = {"question": "Who?", "answer": "Me"}
    assert template("answer").question(row) == "Question: Who?\nAnswer:"
    assert template("answer").question({"context": "I came.", **row}) == "I came.\nQuestion: Who?\nAnswer:"


def test_a_completion_follows_the_text_itself():
    assert template("complete").demonstration({"text": "The sun", "completion": " rises"}) == "The sun rises"


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"label": "1", "text": "fine"}, "classify"),
        ({"label": "1", "text_a": "fine"}, "classify"),
        ({"class": "1", "sentence": "fine"}, "classify"),
        ({"label": "1", "text_a": "a", "text_b": "b"}, "pair"),
        ({"label": "1", "premise": "a", "hypothesis": "b"}, "pair"),
        ({"context": "c", "question": "q", "choices": ["x", "y"], "label": 1}, "choose"),
        ({"question": "q", "answer": "x"}, "answer"),
        ({"context": "c", "qas": [{"question": "q", "answers": [{"text": "x"}]}]}, "answer"),
        ({"text": "t", "summary": "s"}, "summarise"),
        ({"text": "t", "completion": "s"}, "complete"),
        ({"en": "a cat", "de": "eine Katze"}, "translate"),
        ({"zh-cn": "猫", "deu": "eine Katze"}, "translate"),
        ({"source": "a cat", "target": "eine Katze"}, "translate"),
        ({"source": "a cat", "target": "eine Katze", "id": "7"}, "translate"),
    ],
)
def test_the_kind_is_recognised_by_the_columns(tmp_path, row, kind):
    task = read_task(written(tmp_path / "task.jsonl", [row]), None, {})
    assert task.kind.name == kind
    assert task.rows[0][task.kind.answer] in ("1", "x", "y", "s", "eine Katze")


def test_the_answer_with_the_highest_log_probability_per_token_is_chosen(tmp_path):
    engine = toy()
    choices = ["the moon", "a house with a red door", "bird"]
    file = written(tmp_path / "task.jsonl", [{"question": "what?", "choices": choices, "label": 0}])
    found = ask(engine, read_task(file, None, {}), None, PromptOptions())
    assert found.prompt == "Question: what?\nAnswer:"
    prompt = engine.tokenizer.encode_plain(found.prompt)
    rows = [engine.tokenizer.encode_plain(f"{found.prompt} {choice}") for choice in choices]
    means = [logs[len(prompt) - 1 :].mean() for logs in token_log_probabilities(engine, rows)]
    assert found.predicted == [choices[int(np.argmax(means))]]
    assert found.scores == {"accuracy": float(found.predicted == ["the moon"])}


def test_log_probabilities_are_averaged_over_tokens_not_summed(tmp_path):
    engine = written_shares({"q": {"a": 0.5, "b": 0.3, END: 0.2}, "qa": {"a": 0.5, END: 0.5}})
    # Summed, b is likelier (0.3 against 0.25); per token, aa is (0.5 against 0.3).
    file = written(tmp_path / "task.jsonl", [{"question": "q", "choices": ["b", "aa"], "label": 1}])
    found = ask(engine, read_task(file, None, {}), None, PromptOptions(template="{question}{answer}"))
    assert (found.prompt, found.predicted, found.scores) == ("q", ["aa"], {"accuracy": 1.0})


def test_calibration_subtracts_the_log_probability_without_the_question(tmp_path):
    engine = toy()
    file = written(
        tmp_path / "task.jsonl", [{"text": f"cat {n}", "label": "good" if n % 2 else "bad"} for n in range(4)]
    )
    task = read_task(file, None, {})
    found = ask(engine, task, None, PromptOptions(calibrated=True))
    for text, said in zip(task.rows, found.predicted, strict=True):
        weights = {}
        for label in ("bad", "good"):
            sums = []
            for prompt in (f"Text: {text['text']}\nLabel:", "Label:"):
                first = len(engine.tokenizer.encode_plain(prompt))
                (logs,) = token_log_probabilities(engine, [engine.tokenizer.encode_plain(f"{prompt} {label}")])
                sums.append(logs[first - 1 :].sum())
            weights[label] = sums[0] - sums[1]
        assert said == max(weights, key=weights.__getitem__)


def test_calibration_compares_whole_answers_not_their_tokens(tmp_path):
    after, alone = {"a": 0.5, "b": 0.3, END: 0.2}, {"a": 0.6, "b": 0.2, END: 0.2}
    same = {"a": 0.5, END: 0.5}
    engine = written_shares({"qx": after, "qxa": same, "x": alone, "xa": same})
    file = written(tmp_path / "task.jsonl", [{"question": "q", "choices": ["b", "aa"], "label": 1}])
    options = PromptOptions(template="{question}x{answer}")
    assert ask(engine, read_task(file, None, {}), None, options).predicted == ["aa"]  # 0.5 per token against 0.3
    found = ask(engine, read_task(file, None, {}), None, replace(options, calibrated=True))
    assert found.predicted == ["b"]  # the question makes it 0.3 / 0.2 times as likely, and aa 0.25 / 0.3 times


def test_demonstrations_are_chosen_by_the_seed_and_not_answered(tmp_path):
    rows = [{"text": f"number {n}", "label": "odd" if n % 2 else "even"} for n in range(9)]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    found = ask(toy(), task, None, PromptOptions(shots=3, seed=1))
    assert found.shots == 3 and len(found.predicted) == 6
    assert found.prompt.count("Label:") == 4
    assert found.prompt == ask(toy(), task, None, PromptOptions(shots=3, seed=1)).prompt
    assert found.prompt != ask(toy(), task, None, PromptOptions(shots=3, seed=2)).prompt
    from_other = ask(toy(), task, task, PromptOptions(shots=3, limit=2))
    assert len(from_other.predicted) == 2


def test_only_the_first_line_of_a_generated_answer_is_scored(tmp_path):
    task = read_task(written(tmp_path / "task.jsonl", [{"question": "q", "answer": "x"}] * 3), None, {})
    found = ask(toy(), task, None, PromptOptions(tokens=20))
    assert all("\n" not in said for said in found.predicted)
    assert set(found.scores) == {"exact", "f1"}


class Scribe(Engine):
    """Returns fixed answers, and records the prompts and options."""

    def generate(self, prompts, options):
        self.asked = options
        return [GeneratedText(prompt=prompt, text=self.says, tokens=9, ended="length") for prompt in prompts]


def scribe(says: str, max_length: int | None = None) -> Scribe:
    own = toy(max_length=max_length)
    made = Scribe(own.model, own.tokenizer, own.max_length)
    made.says = says
    return made


SUMMARY = " It rained. Mr. Li stayed at home.\nHe read a book. Then he slept. And"


@pytest.mark.parametrize(
    ("shots", "stop", "kept"),
    [
        (0, (), "It rained. Mr. Li stayed at home. He read a book."),
        (1, ("\n",), "It rained. Mr. Li stayed at home. He read a book."),
    ],
)
def test_a_summary_is_three_sentences_of_a_hundred_tokens_by_top_2_sampling(tmp_path, shots, stop, kept):
    """Radford et al., 2019, 3.6: it ends at a line break only with demonstrations, which line breaks separate."""
    task = read_task(written(tmp_path / "task.jsonl", [{"text": "t", "summary": "s"}] * 3), None, {})
    engine = scribe(SUMMARY)
    assert ask(engine, task, None, PromptOptions(shots=shots, seed=5)).predicted == [kept] * (3 - shots)
    assert engine.asked == GenerationOptions(tokens=100, temperature=1.0, top_k=2, stop=stop, seed=5)
    engine = scribe("下雨了。他在家。他看书。他睡了。")
    assert ask(engine, task, None, PromptOptions(beams=4, tokens=30)).predicted[0] == "下雨了。他在家。他看书。"
    assert engine.asked == GenerationOptions(tokens=30, beams=4)


def test_a_summary_is_sampled_by_the_seed(tmp_path):
    task = read_task(written(tmp_path / "task.jsonl", [{"text": "the cat", "summary": "s"}] * 2), None, {})
    first, again, other = (ask(toy(), task, None, PromptOptions(seed=seed)).predicted for seed in (1, 1, 2))
    assert first == again != other


def test_the_context_leaves_a_hundred_tokens_for_a_summary_and_fifty_for_an_answer(tmp_path):
    summary = read_task(written(tmp_path / "a.jsonl", [{"text": "t", "summary": "s"}]), None, {})
    answer = read_task(written(tmp_path / "b.jsonl", [{"question": "t", "answer": "s"}]), None, {})
    assert ask(scribe("It rained.", max_length=80), answer, None, PromptOptions()).predicted == ["It rained."]
    with pytest.raises(
        InputError, match=r"a\.jsonl: a row with its answer has 1\d\d tokens, but the context of this model is 80"
    ):
        ask(scribe("It rained.", max_length=80), summary, None, PromptOptions())


def test_other_answers_are_the_first_line_of_fifty_tokens_by_greedy_decoding(tmp_path):
    task = read_task(written(tmp_path / "task.jsonl", [{"question": "q", "answer": "x"}]), None, {})
    engine = scribe(" One. Two. Three. Four. ")
    assert ask(engine, task, None, PromptOptions()).predicted == ["One. Two. Three. Four."]
    assert engine.asked == GenerationOptions(tokens=50, temperature=0.0, stop=("\n",))


def test_without_line_breaks_in_the_tokenizer_a_mark_separates_demonstrations_and_ends_answers(tmp_path):
    rows = [{"source": f"the cat {n}", "target": f"a bird {n}"} for n in range(3)]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    engine = toy("word ends")
    assert engine.tokenizer.encode("\n") == []
    assert ask(toy("bytes"), task, None, PromptOptions(shots=2, tokens=5)).prompt.count("\n\n") == 2
    found = ask(engine, task, None, PromptOptions(shots=2, tokens=60))
    first, second, asked = found.prompt.split(" . ")
    assert {first, second, f"{asked} a bird {asked[8]}"} == {f"the cat {n} = a bird {n}" for n in range(3)}
    assert "." not in found.predicted[0]
    stop = engine.tokenizer.encode(".")[0]
    engine.model.argmax = lambda hidden: hidden.new_full((len(hidden),), stop).long()
    assert ask(engine, task, None, PromptOptions(shots=2)).predicted == [""]  # it ended at once


def test_the_mark_is_the_first_that_the_tokenizer_can_produce():
    lines = ["the cat sees a house.", "a | b", "one; two"] * 5
    assert line_end_of(ByteBPE(size=300).train(lines)) == "\n"
    assert line_end_of(WordEndBPE(size=100).train(lines)) == "|"
    assert line_end_of(WordEndBPE(size=100).train(lines[::3])) == "."
    assert line_end_of(ClosingUnigram(size=60).train(lines)) == "|"
    with pytest.raises(InputError, match="can produce neither a line break nor"):
        line_end_of(WordEndBPE(size=100).train(["the cat"] * 5))


@pytest.mark.parametrize(
    ("row", "asked", "said"),
    [
        (
            {"text": "t", "label": "1"},
            {"tokens": 9},
            "classify is answered by likelihood .* Leave out tokens, which would have no effect",
        ),
        ({"text": "t", "label": "1"}, {"beams": 2}, "Leave out beams, which would have no effect"),
        (
            {"text": "t", "label": "1"},
            {"tokens": 9, "beams": 2},
            "Leave out tokens and beams, which would have no effect",
        ),
        ({"text": "t", "label": "1"}, {"tokens": 0}, "tokens must be a whole number, 1 or more; found 0"),
        ({"question": "q", "answer": "x"}, {"tokens": 0}, "tokens must be a whole number, 1 or more; found 0"),
        ({"question": "q", "answer": "x"}, {"beams": 0}, "beams must be a whole number, 1 or more; found 0"),
        (
            {"question": "q", "answer": "x"},
            {"calibrated": True},
            "answer is answered by generating text, .* calibrated",
        ),
    ],
)
def test_options_without_effect_are_refused(tmp_path, row, asked, said):
    task = read_task(written(tmp_path / "task.jsonl", [row]), None, {})
    with pytest.raises(SettingError, match=said):
        ask(toy(), task, None, PromptOptions(**asked))


def test_words_for_labels_that_do_not_occur_are_refused(tmp_path):
    task = written(tmp_path / "a.jsonl", [{"text": "t", "label": "0"}])
    train = written(tmp_path / "b.jsonl", [{"text": "t", "label": "1"}])
    asked, shown = read_tasks(task, train, None, {"0": "bad", "1": "good"})
    assert (asked.rows[0]["label"], shown.rows[0]["label"]) == ("bad", "good")
    with pytest.raises(
        SettingError, match=r"--labels has a word for 7, which is not a label of .*a.jsonl; it has 0, 1\.$"
    ):
        read_tasks(task, train, None, {"0": "bad", "7": "x"})
    for count, some in ((10, "a, b, c, d, e, f, g, h, i, j."), (11, "a, b, c, d, e, f, g, h, i, j, ....")):
        many = written(tmp_path / "d.jsonl", [{"text": "t", "label": label} for label in "abcdefghijk"[:count]])
        with pytest.raises(SettingError) as refusal:
            read_tasks(many, None, None, {"7": "x"})
        assert str(refusal.value).endswith(f"; it has {some}")
    answers = written(tmp_path / "c.jsonl", [{"question": "q", "answer": "x"}])
    with pytest.raises(
        SettingError, match=r"--labels gives words for classes, but .*c.jsonl is a task of the kind answer"
    ):
        read_tasks(answers, None, None, {"0": "bad"})


def test_as_many_demonstrations_as_fit_are_shown_and_a_question_that_never_fits_is_refused(tmp_path):
    rows = [{"text": f"number {n}", "label": "odd" if n % 2 else "even"} for n in range(9)]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    found = ask(toy(max_length=70), task, None, PromptOptions(shots=8))
    assert 0 < found.shots < 8
    with pytest.raises(InputError, match="tokens, but the context of this model is 10 tokens"):
        ask(toy(max_length=10), task, None, PromptOptions())


@pytest.mark.parametrize("shots", [0, 1, 2, 3])
def test_demonstrations_fit_where_prompt_and_answer_leave_one_token_of_the_context(tmp_path, shots):
    rows = [{"text": f"number {n}", "label": "odd" if n % 2 else "even"} for n in range(4)]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    shown = task if shots else None
    prompt = ask(toy(), task, shown, PromptOptions(shots=shots)).prompt
    encode = toy().tokenizer.encode_plain
    needed = len(encode(prompt)) + max(len(encode(" odd")), len(encode(" even"))) + 1
    assert ask(toy(max_length=needed), task, shown, PromptOptions(shots=shots)).shots == shots
    if shots:
        assert ask(toy(max_length=needed - 1), task, task, PromptOptions(shots=shots)).shots == shots - 1
    else:
        with pytest.raises(InputError, match=f"a row with its answer has {needed - 1} tokens"):
            ask(toy(max_length=needed - 1), task, None, PromptOptions())


def test_a_file_of_demonstrations_is_refused_where_none_are_shown(tmp_path):
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    with pytest.raises(
        SettingError, match=r"^--train .*task\.jsonl has no effect without demonstrations\. Say how many"
    ):
        ask(toy(), task, task, PromptOptions())


def test_all_rows_but_one_can_be_demonstrations_and_one_row_can_be_answered(tmp_path):
    rows = [{"text": f"number {n}", "label": str(n)} for n in range(4)]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    assert len(ask(toy(), task, None, PromptOptions(shots=3)).predicted) == 1
    from_elsewhere = ask(toy(), task, task, PromptOptions(shots=4))
    assert len(from_elsewhere.predicted) == 4
    assert len(ask(toy(), task, None, PromptOptions(limit=1)).predicted) == 1
    with pytest.raises(
        SettingError, match=r"4 demonstrations .* has 4 rows, of which at least one must be left to answer"
    ):
        ask(toy(), task, None, PromptOptions(shots=4))
    with pytest.raises(SettingError, match=r"5 demonstrations are requested, but .* has 4 rows\.$"):
        ask(toy(), task, task, PromptOptions(shots=5))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"shots": -1}, "shots is the number of demonstrations"),
        ({"limit": 0}, "limit is the number of rows"),
        ({"shots": 4}, "4 demonstrations are requested, but"),
        ({"template": "{label}: {text}"}, r"must end with \{label\}"),
        ({"template": "Say {txt} {label}"}, r"names \{txt\}, but the columns are text, label. Did you mean 'text'"),
    ],
)
def test_invalid_options_are_refused(tmp_path, asked, said):
    rows = [{"text": f"number {n}", "label": str(n)} for n in range(4)]
    task = read_task(written(tmp_path / "task.jsonl", rows), None, {})
    with pytest.raises(SettingError, match=said):
        ask(toy(), task, None, PromptOptions(**asked))


def test_files_that_match_no_task_are_refused(tmp_path):
    with pytest.raises(InputError, match="which do not match any task"):
        read_task(written(tmp_path / "a.jsonl", [{"a": "1", "b": "2", "c": "3"}]), None, {})
    with pytest.raises(InputError, match="has no column summary, which the kind summarise needs"):
        read_task(written(tmp_path / "a.jsonl", [{"text": "1", "label": "2"}]), "summarise", {})
    with pytest.raises(SettingError, match="Did you mean 'translate'"):
        read_task(written(tmp_path / "a.jsonl", [{"text": "1", "label": "2"}]), "translat", {})
    with pytest.raises(InputError, match="label '7' is neither one of the 2 choices"):
        read_task(written(tmp_path / "a.jsonl", [{"question": "q", "choices": ["a", "b"], "label": 7}]), None, {})
    with pytest.raises(SettingError, match="as in 0=bad,1=good"):
        read_labels("0,1")


@pytest.mark.parametrize("columns", [("sentence", "mood"), ("context", "ending"), ("English", "German")])
def test_two_columns_that_are_not_languages_are_not_a_translation(tmp_path, columns):
    file = written(tmp_path / "a.jsonl", [dict.fromkeys(columns, "x")])
    known = r"\nTasks have: choose: .*; translate: source, target. Or pass --kind"
    with pytest.raises(InputError, match=f"has the columns {', '.join(columns)}, which do not match any task.{known}"):
        read_task(file, None, {})
    assert read_task(file, "translate", {}).rows[0]["target"] == "x"  # if the kind is given


def test_of_several_languages_the_template_chooses_two(tmp_path):
    rows = [{"en": f"cat {n}", "de": f"Katze {n}", "fr": f"chat {n}"} for n in range(3)]
    task = read_task(written(tmp_path / "a.jsonl", rows), "translate", {})
    found = ask(toy(), task, None, PromptOptions(template="{en} = {fr}", tokens=5))
    assert (found.prompt, found.expected) == ("cat 0 =", ["chat 0", "chat 1", "chat 2"])
    shown = ask(toy(), task, task, PromptOptions(template="{fr} > {de}", shots=1, tokens=5)).prompt
    number = shown[5]
    assert shown == f"chat {number} > Katze {number}\n\nchat 0 >"
    with pytest.raises(SettingError, match=r"has the columns en, de, fr; .*\nChoose two .* '\{en\} = \{de\}'"):
        ask(toy(), task, None, PromptOptions())
    gap = read_task(written(tmp_path / "b.jsonl", [*rows, {"en": "dog", "de": "Hund", "fr": " "}]), "translate", {})
    fewer = read_task(written(tmp_path / "c.jsonl", [{"en": "dog", "de": "Hund"}]), "translate", {})
    for asked, shown in ((gap, None), (task, gap)):
        with pytest.raises(InputError, match=r"b.jsonl: rows without 'fr': 1. Leave them out"):
            ask(toy(), asked, shown, PromptOptions(template="{en} = {fr}", shots=1))
    with pytest.raises(InputError, match=r"c.jsonl has no column 'fr'; it has en, de"):
        ask(toy(), task, fewer, PromptOptions(template="{en} = {fr}", shots=1))


def test_a_third_column_next_to_two_languages_is_not_a_language(tmp_path):
    file = written(tmp_path / "a.jsonl", [{"number": "7", "en": "a cat", "zh-cn": "猫"}])
    task = read_task(file, "translate", {})
    assert (task.rows[0]["source"], task.rows[0]["target"]) == ("a cat", "猫")
    assert ask(toy(), task, None, PromptOptions(template="{zh-cn} = {en}", tokens=3)).expected == ["a cat"]


def test_a_new_kind_between_languages_is_read_as_translations_are(tmp_path, monkeypatch):
    dictionary = replace(PROMPT_KINDS["translate"], name="dictionary", template="{source}: {target}")
    monkeypatch.setitem(PROMPT_KINDS, "dictionary", dictionary)
    rows = [{"en": "cat", "de": "Katze", "fr": "chat"}]
    task = read_task(written(tmp_path / "a.jsonl", rows), "dictionary", {})
    assert ask(toy(), task, None, PromptOptions(template="{de}: {fr}", tokens=3)).expected == ["chat"]


def test_a_translation_needs_two_columns(tmp_path):
    with pytest.raises(InputError, match="has only the column en; a translation needs two languages"):
        read_task(written(tmp_path / "a.jsonl", [{"en": "a cat"}]), "translate", {})


def test_columns_are_found_by_usual_names_and_reported(tmp_path):
    said = []
    file = written(tmp_path / "a.jsonl", [{"Review": "fine", "标签": "good", "title": "t"}])
    task = read_task(file, None, {}, say=said.append)
    assert (task.kind.name, task.rows) == ("classify", [{"text": "fine", "label": "good", "title": "t"}])
    assert said == [
        f"{file}: reading column 'Review' as text and column '标签' as label. To read another: --text title."
    ]


def test_columns_can_be_named(tmp_path):
    said = []
    file = written(tmp_path / "a.jsonl", [{"text": "old", "new": "fine", "mood": "good"}])
    task = read_task(file, None, {}, Columns(text="new", label="mood"), said.append)
    assert task.rows == [{"other text": "old", "text": "fine", "label": "good"}]
    assert said == []
    with pytest.raises(SettingError, match="No kind of task reads --text and --text-b"):
        read_task(file, None, {}, Columns(text="new", text_b="mood"))
    with pytest.raises(InputError, match=r"has no column 'moood'\. Did you mean 'mood'"):
        read_task(file, None, {}, Columns(text="new", label="moood"))


def test_exact_names_of_another_kind_come_before_usual_ones(tmp_path):
    row = {"source": "a cat", "target": "eine Katze", "title": "t"}
    assert read_task(written(tmp_path / "a.jsonl", [row]), None, {}).kind.name == "translate"


def test_a_task_without_a_header_is_refused_with_the_options_to_add(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("good\ta fine film\nbad\tno\ngood\tyes\n")
    with pytest.raises(InputError, match=r"which do not match any task.\n.*\n--no-header --text 2 --label 1$"):
        read_task(file, None, {})
    with pytest.raises(
        InputError, match=r"has the columns 1, 2, which .*\nName the columns, for example: --text 2 --label 1$"
    ):
        read_task(file, None, {}, Columns(header=False))
    task = read_task(file, None, {}, Columns(text="2", label="1", header=False))
    assert [row["text"] for row in task.rows] == ["a fine film", "no", "yes"]


def test_rows_without_text_or_answer_are_left_out_and_reported(tmp_path):
    said = []
    rows = [
        {"text": "a", "label": 1},
        {"text": " ", "label": 0},
        {"text": "b", "label": None},
        {"text": "c", "label": 0},
    ]
    file = written(tmp_path / "a.jsonl", rows)
    task = read_task(file, None, {}, say=said.append)
    assert [row["text"] for row in task.rows] == ["a", "c"]
    assert task.choices == [("0", "1")] * 2
    assert said == [f"! {file}: 2 rows without label or text left out (lines 2 and 3)."]
    with pytest.raises(InputError, match=r"none of its 1 row has label and text\.$"):
        read_task(written(tmp_path / "b.jsonl", rows[1:2]), None, {})


@pytest.mark.parametrize("label", ["²", "1" * 5000, "x", 2])
def test_a_label_that_is_not_a_choice_is_refused(tmp_path, label):
    row = {"question": "q", "choices": ["a", "b"], "label": label}
    with pytest.raises(InputError, match=r"label '.{1,40}' is neither one of the 2 choices nor a number from 0 to 1\."):
        read_task(written(tmp_path / "a.jsonl", [row]), None, {})


@pytest.mark.parametrize(
    ("answers", "answer"),
    [
        ([{"text": "Rome"}], "Rome"), (["Rome", "Roma"], "Rome"), ("Rome", "Rome"), ({"text": ["Rome"]}, "Rome"),
        (1861, "1861"), ([], "unknown"), ([[]], "unknown"), (None, "unknown"), ({"text": []}, "unknown"),
        ([{"text": None}], "unknown"), ([True], "True"),
    ],
)  # fmt: skip
def test_answers_of_any_type_are_read(tmp_path, answers, answer):
    row = {"context": "c", "qas": [{"question": "q?", "answers": answers}]}
    task = read_task(written(tmp_path / "a.jsonl", [row]), None, {})
    assert task.rows == [{"context": "c", "question": "q?", "answer": answer}]


@pytest.mark.parametrize("questions", ["q?", [None], [["q?"]], 5])
def test_questions_of_an_odd_type_are_refused(tmp_path, questions):
    row = {"context": "c", "qas": questions}
    with pytest.raises(InputError, match=r"a.jsonl, line 1: 'qas' holds .*, not objects with question and answers\."):
        read_task(written(tmp_path / "a.jsonl", [row]), None, {})


def test_odd_answers_and_choices_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a.jsonl has no questions: 'qas' is empty in every row\."):
        read_task(written(tmp_path / "a.jsonl", [{"context": "c", "qas": []}]), None, {})
    with pytest.raises(InputError, match=r"line 1: the answer is a list or an object, not text\."):
        read_task(written(tmp_path / "a.jsonl", [{"question": "q", "answer": ["a"]}]), None, {})
    with pytest.raises(InputError, match=r"line 1: choices must be a list of at least two texts; found None\."):
        read_task(written(tmp_path / "a.jsonl", [{"question": "q", "choices": None, "label": 0}]), None, {})


def test_labels_get_words(tmp_path):
    task = read_task(written(tmp_path / "a.jsonl", [{"text": "1", "label": 0}]), None, read_labels("0=bad,1=good"))
    assert task.rows[0]["label"] == "bad"
