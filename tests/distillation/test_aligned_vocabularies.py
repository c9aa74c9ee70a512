"""A student and a teacher with other vocabularies: what is the same text is compared, and nothing else."""

import numpy as np
import pytest
import torch
from test_general import sets

from plmkit.architectures.decoder import Decoder
from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import IGNORE, Batch, HeadStates, Side, States
from plmkit.distillation.alignment import AlignedRows, Alignment, align, begins_word, matching, spans_in, text_of
from plmkit.distillation.initial import by_text
from plmkit.distillation.teacher import NetworkTeacher, placed, placed_heads
from plmkit.errors import SettingError
from plmkit.network import Network
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.distillation import SoftTargets
from plmkit.objectives.distillation_states import AttentionMatching, CosineStates, HiddenMatching, RelationMatching
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.tokenizers.rules import BYTES, byte_rules
from plmkit.tokenizers.tokenizer import Tokenizer, bert_tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("the", "cat", "##s", "see", "##ing", "sleep", "a", "b", "c", ".", "中", "文")
STATES = (CosineStates, HiddenMatching, AttentionMatching, RelationMatching)


def words(*tokens: str) -> Tokenizer:
    return bert_tokenizer((*SPECIAL, *tokens), lowercase=True)


def bytes_with(*merges: str) -> Tokenizer:
    """Byte-level BPE with a token for each of these pairs."""
    pairs = [tuple(merge.split()) for merge in merges]
    names = [*sorted(BYTES), *("".join(pair) for pair in pairs)]
    return Tokenizer(byte_rules({name: number for number, name in enumerate(names)}, pairs, add_prefix_space=True))


def row_of(student: Tokenizer, *shown: str, known: dict[int, str] | None = None) -> Batch:
    """One row; `known`: the token to predict at some of its places."""
    numbers = {token: number for number, token in enumerate(student.vocabulary.tokens)}
    tokens = torch.tensor([[numbers[one] for one in shown]])
    targets = torch.full_like(tokens, IGNORE)
    for place, token in (known or {}).items():
        targets[0, place] = numbers[token]
    return Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)), targets=targets)


def aligned(student: Tokenizer, teacher: Tokenizer, batch: Batch, *, causal: bool = False, length: int = 64):
    """The teacher's row as strings, and for each token of the student's its own, with * where predictions are too."""
    rows = Alignment(student, teacher, causal=causal, length=length).rows(batch, masked=not causal)
    names = teacher.vocabulary.names(rows.batch.source.tokens[0].tolist())
    parts = zip(rows.places[0].tolist(), rows.aligned[0].tolist(), rows.comparable[0].tolist(), strict=True)
    return names, [names[place] + "*" * alike if known else "-" for place, known, alike in parts]


def test_texts_of_tokens_by_eye():
    assert [text_of(*one) for one in (("##ing", "##"), ("Ġcat", "Ġ"), ("▁cat", "▁"), ("cat</w>", "</w>"))] == [
        b"ing", b"cat", b"cat", b"cat",
    ]  # fmt: skip
    assert begins_word("cat", "##") and begins_word("Ġcat", "Ġ") and begins_word("▁cat", "▁")
    assert not any(begins_word(*one) for one in (("##s", "##"), ("s", "Ġ"), ("中", "##"), (",", "##"), ("Ġ,", "Ġ")))


def test_pieces_are_found_in_their_text_whatever_the_spaces():
    assert spans_in(b"don't  stop", [b"don", b"'", b"t", b"stop"]) == [(0, 3), (3, 4), (4, 5), (7, 11)]
    assert spans_in(b"a lost b", [b"a", b"x", b"b"]) == [(0, 1), (1, 1), (7, 8)]


def test_only_spans_that_are_equal_and_unique_match():
    assert matching([(0, 3), (3, 5), (5, 6)], [(0, 3), (3, 4), (4, 5), (5, 6), (5, 6)], by_end=False) == [0, -1, -1]
    assert matching([(0, 3), (3, 5)], [(0, 1), (1, 3), (3, 4), (4, 5)], by_end=True) == [1, 3]


def test_a_row_of_word_pieces_as_bytes():
    student = words(*WORDS)
    teacher = bytes_with("Ġ c", "a t", "Ġc at", "Ġcat s", "Ġ s", "e e", "Ġs ee", "i n", "in g")
    batch = row_of(student, "[CLS]", "cat", "##s", "see", "##ing", ".", "[SEP]")
    names, found = aligned(student, teacher, batch)
    assert names == ["<s>", "Ġcats", "Ġsee", "ing", ".", "</s>"]
    assert found == ["<s>", "-", "-", "Ġsee*", "ing*", ".*", "</s>"]


def test_what_is_masked_for_the_student_is_masked_for_its_teacher():
    """A piece that is not the teacher's masks every token of the teacher that shares a letter with it."""
    student = words(*WORDS)
    teacher = bytes_with("Ġ c", "a t", "Ġc at", "Ġcat s", "Ġ s", "e e", "Ġs ee", "i n", "in g")
    batch = row_of(student, "[CLS]", "cat", "[MASK]", "[MASK]", "##ing", "[SEP]", known={2: "##s", 3: "see"})
    names, found = aligned(student, teacher, batch)
    assert names == ["<s>", "<mask>", "<mask>", "ing", "</s>"]
    assert found == ["<s>", "-", "-", "<mask>*", "ing*", "</s>"]
    replaced = row_of(student, "[CLS]", "see", "##s", "[SEP]", known={1: "cat"})  # by another token
    assert aligned(student, words("see", "x", "cat", "##s"), replaced)[0] == ["[CLS]", "see", "##s", "[SEP]"]
    assert aligned(student, words("x", "cat", "##s"), replaced)[0] == ["[CLS]", "[MASK]", "##s", "[SEP]"]


def test_a_causal_student_is_compared_where_both_have_read_the_same():
    student, teacher = words(*WORDS), words("the", "cats", "see", "##in", "##g", ".")
    batch = row_of(student, "the", "cat", "##s", "see", "##ing", ".", known={0: "cat", 2: "see", 3: "##ing", 4: "."})
    names, found = aligned(student, teacher, batch, causal=True)
    assert names == ["the", "cats", "see", "##in", "##g", "."]
    assert found == ["the", "-", "cats*", "see", "##g*", "."]  # what comes after them is in both vocabularies


def test_a_word_that_the_teacher_does_not_know_is_not_compared_and_a_long_row_is_cut():
    student, teacher = words(*WORDS), words("the", "cat", "b")
    names, found = aligned(student, teacher, row_of(student, "[CLS]", "the", "see", "cat", "b", "[SEP]"), length=4)
    assert names == ["[CLS]", "the", "[UNK]", "cat"]
    assert found == ["[CLS]", "the*", "-", "cat*", "-", "-"]


def test_states_of_the_teacher_are_moved_to_where_the_student_has_the_token():
    places = torch.tensor([[0, 2, 3]])
    rows = AlignedRows(batch=None, places=places, aligned=places >= 0, comparable=places >= 0)
    hidden = torch.tensor([[[0.0], [10.0], [20.0], [30.0]]])
    moved = placed(States(hidden=hidden, layers=(hidden + 1,)), rows)
    assert moved.hidden[0, :, 0].tolist() == [0.0, 20.0, 30.0]
    assert moved.layers[0][0, :, 0].tolist() == [1.0, 21.0, 31.0]
    heads = placed_heads(HeadStates(query=hidden[:, None], key=hidden[:, None] + 1, value=hidden[:, None] + 2), rows)
    assert [part[0, 0, :, 0].tolist() for part in (heads.query, heads.key, heads.value)] == [
        [0.0, 20.0, 30.0], [1.0, 21.0, 31.0], [2.0, 22.0, 32.0],
    ]  # fmt: skip


def test_vocabularies_with_little_in_common_are_refused():
    english, chinese = words("the", "cat", "see", "a"), words("中", "文", "天", "地", "a")
    assert align(english, english, "teacher", causal=False, length=9) is None
    assert align(english, words("the", "cat"), "teacher", causal=False, length=9).share == 0.5
    with pytest.raises(
        SettingError, match=r"of teacher: of its 10 tokens only 1 have the text of one of the teacher's 9"
    ):
        align(chinese, english, "teacher", causal=False, length=9)


def turned(tokens: Tokenizer) -> Tokenizer:
    """The same tokens in the opposite order."""
    return bert_tokenizer(tokens.vocabulary.tokens[::-1], lowercase=True)


@pytest.mark.parametrize("causal", [False, True])
def test_a_student_that_is_its_teacher_with_tokens_in_another_order_has_no_loss(causal):
    tokenizer = words(*WORDS)
    other = turned(tokenizer)
    shape = {"layers": 2, "heads": 4, "width": 16, "inner": 24, "max_length": 12, "dropout": 0.0}
    lm = CausalLM() if causal else MaskedLM()
    kind = Decoder(**shape, attention_dropout=0.0) if causal else Encoder(**shape, attention_dropout=0.0)

    def network(tokens: Tokenizer, *objectives) -> Network:
        torch.manual_seed(0)
        model = kind.build(tokens.vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return Network(model, {one.name: one.build(model) for one in objectives}, {})

    teacher = network(tokenizer, lm)
    student = network(other, lm, SoftTargets(), *(one() for one in STATES[causal:]))
    alignment = Alignment(other, tokenizer, causal=causal, length=12)
    made = by_text(student.state_dict(), teacher.state_dict(), alignment)
    student.load_state_dict(student.state_dict() | dict(made))
    student.weights = dict.fromkeys(student.heads, 1.0)
    student.teacher = NetworkTeacher(teacher.eval(), causal, alignment, masked=not causal)
    masked = row_of(other, "[CLS]", "the", "[MASK]", "##s", "see", "[SEP]", known={2: "cat", 4: "see"})
    plain = row_of(other, "the", "cat", "##s", "see", ".", known={0: "cat", 1: "##s", 2: "see", 3: "."})
    losses = student.eval()(plain if causal else masked).losses
    assert losses.pop(lm.name).item() > 0.1
    assert {name: loss.item() for name, loss in losses.items()} == pytest.approx(dict.fromkeys(losses, 0.0), abs=1e-5)
    assert len(losses) == 5 - causal
    student.teacher = NetworkTeacher(network(tokenizer, lm).eval(), causal, alignment, masked=not causal)
    with torch.no_grad():
        for parameter in student.teacher.network.parameters():
            parameter.mul_(0.7)
    assert all(loss.item() > 1e-4 for loss in student(plain if causal else masked).losses.values())


def test_rows_without_a_single_token_in_common_have_no_loss():
    student, teacher = words("a", "b", "q"), words("c", "d", "q")
    alignment = Alignment(student, teacher, causal=False, length=12)
    rows = alignment.rows(row_of(student, "a", "b"), masked=True)
    assert not rows.aligned.any()
    encoder = Encoder(layers=1, heads=2, width=8, inner=8, max_length=12)
    model = encoder.build(student.vocabulary)
    objectives = (MaskedLM(), SoftTargets(positions="all"), *(one() for one in STATES))
    network = Network(model, {one.name: one.build(model) for one in objectives}, {one.name: 1.0 for one in objectives})
    their = encoder.build(teacher.vocabulary)
    network.teacher = NetworkTeacher(
        Network(their, {"masked_lm": MaskedLM().build(their)}, {"masked_lm": 1.0}).eval(), False, alignment, masked=True
    )
    losses = network.eval()(row_of(student, "a", "b", known={0: "a"})).losses
    assert {name: loss.item() for name, loss in losses.items() if name != "masked_lm"} == dict.fromkeys(
        ["soft_targets", *(one.name for one in STATES)], 0.0
    )


def test_initial_embeddings_are_those_of_the_same_text():
    student, teacher = words("cat", "new", "the"), words("the", "cat")
    own, theirs = torch.zeros(8, 2), torch.arange(14.0).view(7, 2)
    name = "model.embed.tokens.weight"
    made = by_text({name: own}, {name: theirs}, Alignment(student, teacher, causal=False, length=9))[name]
    assert made[5].tolist() == theirs[6].tolist() and made[7].tolist() == theirs[5].tolist()
    assert made[6].tolist() == [0.0, 0.0]
    assert np.array_equal(made[:5], theirs[:5])


@pytest.mark.parametrize("method", ["distilbert", "minilm"])
def test_a_student_with_byte_tokens_is_taught_by_word_pieces(method, plm, pretrained, mixed_corpus, tmp_path):
    kind = tmp_path / "own"
    size = ["--set", "tokenizer.size=400"]
    assert plm("pretrain", "roberta-tiny", mixed_corpus, "--out", kind, "--steps", 1, *sets(), *size, "-q").code == 0
    command = [pretrained, "roberta-tiny", mixed_corpus, "--steps", 4, "--method", method, *sets()]
    ran = plm("distill", *command, "--tokenizer", kind, "--out", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    assert "The vocabularies differ, and are aligned by text" in ran.err
    teacher, _ = ran.json["compared"]
    assert teacher["score"] is None  # a loss per token says nothing about other tokens
    assert teacher["milliseconds"] > 0
    ran = plm("distill", pretrained, kind, mixed_corpus, "--tokenizer", kind, "--out", tmp_path / "no", "--steps", 2)
    assert ran.code == 2
    assert "has a tokenizer of its own; --tokenizer is for a recipe" in ran.err


def test_a_task_is_distilled_with_another_vocabulary(plm, finetuned, mixed_corpus, rows_file, tmp_path):
    kind, size = tmp_path / "own", ["--set", "tokenizer.size=400"]
    assert plm("pretrain", "roberta-tiny", mixed_corpus, "--out", kind, "--steps", 1, *sets(), *size, "-q").code == 0
    for method in ("soft", "minilm"):
        ran = plm("distill", finetuned, kind, rows_file, "--dev", rows_file, "--method", method, "--epochs", 1, "--out",
                  tmp_path / method, "--set", "run.threads=1", "--json", "-q")  # fmt: skip
        assert ran.code == 0, ran.err
        assert plm("predict", tmp_path / method, "the cat sees a house.", "-q").code == 0
