"""ELMo: two language models that never see each other's side of a word."""

from dataclasses import replace

import pytest
import torch

from plmkit.architectures.elmo import Elmo
from plmkit.data.batch import Batch, Side, States
from plmkit.data.spelling import spell
from plmkit.errors import SettingError
from plmkit.tokenizers.counted import sentence_words

TINY = Elmo(layers=2, width=8, cell=6, filters=((1, 3), (2, 4)), characters=3, highways=1, dropout=0.0)
WORDS = sentence_words(["<S>", "</S>", "<UNK>", *"the cat sat on a mat dog ran off".split()]).vocabulary


def model_of(settings: Elmo = TINY):
    torch.manual_seed(0)
    model = settings.build(WORDS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model


def batch_of(*rows: list[int], **fields) -> Batch:
    length = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows])
    visible = torch.arange(length) < torch.tensor(list(map(len, rows)))[:, None]
    return Batch(source=Side(tokens=tokens, visible=visible), all_layers=True, **fields)


def test_two_layers_make_five_vectors_of_a_word_in_three_layers():
    states = model_of()(batch_of([0, 3, 4, 5, 1]))
    words, *others = states.layers
    assert [layer.shape for layer in states.layers] == [(1, 5, 8)] * 3
    torch.testing.assert_close(words[..., :4], words[..., 4:])  # the word itself, twice
    for layer in others:
        assert not torch.allclose(layer[..., :4], layer[..., 4:])


def test_a_neighbour_changes_every_layer_but_the_first():
    model = model_of()
    one, other = model(batch_of([0, 3, 4, 5, 1])).layers, model(batch_of([0, 3, 4, 6, 1])).layers
    torch.testing.assert_close(one[0][:, :3], other[0][:, :3])
    for layer, changed in zip(one[1:], other[1:], strict=True):
        assert not torch.allclose(layer[:, :3], changed[:, :3])


def test_a_state_knows_the_words_of_its_own_side_only():
    """The gradient of a forward state is zero at all words after it, of a backward state at all words before it."""
    model = model_of()
    embedded = []
    model.embed.register_forward_hook(lambda *parts: embedded.append(parts[2].requires_grad_()) or parts[2])
    states = model(batch_of([0, 3, 4, 5, 6, 7, 1]))  # seven different words: one vector each
    order = states.hidden.shape[1]
    places = torch.tensor([0, 3, 4, 5, 6, 7, 1]).unique(return_inverse=True)[1]
    for at in range(order):
        for layer in states.layers[1:]:
            onward, backward = (
                torch.autograd.grad(part.sum(), embedded[0], retain_graph=True)[0][places].abs().sum(1)
                for part in (layer[0, at, :4], layer[0, at, 4:])
            )
            assert (onward > 0).tolist() == [place <= at for place in range(order)]
            assert (backward > 0).tolist() == [place >= at for place in range(order)]


def test_padding_changes_nothing():
    model = model_of()
    alone, beside = model(batch_of([0, 3, 1])), model(batch_of([0, 3, 1], [0, 4, 5, 6, 7, 1]))
    for one, other in zip(alone.layers, beside.layers, strict=True):
        torch.testing.assert_close(one[0], other[0, :3])
    torch.testing.assert_close(alone.pooled[0], beside.pooled[0])
    for one, other in zip(alone.memory, beside.memory, strict=True):
        torch.testing.assert_close(one[0], other[0])


def test_the_backward_network_reads_the_same_text_from_its_end():
    """With the weights of the other direction, a reversed text has the reversed states, the directions exchanged."""
    model = model_of()
    own = model(batch_of([0, 3, 4, 5, 1])).hidden
    onward, backward = model.directions
    onward_weights = {name: tensor.clone() for name, tensor in onward.state_dict().items()}
    onward.load_state_dict(backward.state_dict())
    backward.load_state_dict(onward_weights)
    turned = model(batch_of([1, 5, 4, 3, 0])).hidden.flip(1)
    torch.testing.assert_close(torch.cat([turned[..., 4:], turned[..., :4]], dim=2), own)


def one_way(model, rows: list[list[int]], backward: list[bool], memory=None) -> States:
    return model(batch_of(*rows, reversed=torch.tensor(backward), memory=memory))


def test_rows_of_one_direction_have_the_states_of_that_direction():
    model = model_of()
    whole = model(batch_of([0, 3, 4, 5, 1])).hidden[0]
    states = one_way(model, [[1, 5, 4, 3, 0], [0, 3, 4, 5, 1], [1, 5, 4, 3, 0]], [True, False, True])
    torch.testing.assert_close(states.hidden[1], whole[:, :4])
    for row in (0, 2):
        torch.testing.assert_close(states.hidden[row], whole[:, 4:].flip(0))
    assert [part.shape for part in states.memory] == [(3, 1, 2, 4), (3, 1, 2, 6)]  # outputs and cells differ in width
    only = one_way(model, [[1, 5, 4, 3, 0]], [True])
    torch.testing.assert_close(only.hidden[0], states.hidden[0])


@pytest.mark.parametrize("residual", [True, False])
def test_a_text_read_in_parts_has_the_states_of_the_whole(residual):
    model = model_of(replace(TINY, residual=residual))
    rows, backward = [[0, 3, 4, 5, 6, 1], [1, 7, 6, 3, 8, 0]], [False, True]
    whole = one_way(model, rows, backward)
    first = one_way(model, [row[:2] for row in rows], backward)
    second = one_way(model, [row[2:] for row in rows], backward, first.memory)
    torch.testing.assert_close(torch.cat([first.hidden, second.hidden], dim=1), whole.hidden)
    assert not any(part.requires_grad for part in first.memory)
    fresh = one_way(model, [row[2:] for row in rows], backward)
    assert not torch.allclose(fresh.hidden, second.hidden)


def test_in_training_some_rows_begin_from_an_empty_state_as_new_texts_do():
    rows, backward = [[3, 4, 5], [7, 6, 3]], [False, True]
    fresh, always = one_way(model_of(), rows, backward), model_of(replace(TINY, restart_share=1.0))
    carried = one_way(always, rows, backward, fresh.memory)  # not in training: every row continues
    assert not torch.allclose(carried.hidden, fresh.hidden)
    torch.testing.assert_close(one_way(always.train(), rows, backward, fresh.memory).hidden, fresh.hidden)


def test_the_share_of_restarted_rows_is_the_one_that_is_set_and_all_of_a_row_is_emptied():
    outputs, cells = torch.ones(4_000, 1, 2, 4), torch.full((4_000, 1, 2, 6), 3.0)
    torch.manual_seed(0)
    made = model_of(replace(TINY, restart_share=0.25)).train().restarted((outputs, cells))
    empty = [(part == 0).flatten(1).all(1) for part in made]
    assert torch.equal(empty[0], empty[1])
    assert 0.23 < float(empty[0].float().mean()) < 0.27
    for part, whole, rows in zip(made, (outputs, cells), empty, strict=True):
        assert torch.equal(part[~rows], whole[~rows])


def test_an_unknown_word_is_read_by_its_characters():
    model = model_of()
    batch = batch_of([0, 3, 2, 1])
    characters = WORDS.spelling[batch.source.tokens.numpy()]

    def spelled(word: str) -> torch.Tensor:
        characters[0, 2] = spell([word])[0]
        return model(replace(batch, source=replace(batch.source, characters=torch.tensor(characters)))).hidden

    torch.testing.assert_close(spelled("cat"), model(batch_of([0, 3, 4, 1])).hidden)  # as if it were known
    assert torch.isfinite(spelled("zyx")).all()
    assert not torch.allclose(spelled("zyx"), model(batch).hidden)
    assert not torch.allclose(spelled("zyx"), spelled("xyz"))


def test_residuals_enter_from_the_second_layer_on():
    model, plain = model_of(), model_of(replace(TINY, residual=False))
    batch = batch_of([0, 3, 4, 1])
    ours, theirs = model(batch).layers, plain(batch).layers
    torch.testing.assert_close(ours[1], theirs[1])
    torch.testing.assert_close(ours[2] - theirs[2], theirs[1])


def test_cells_and_outputs_are_clipped():
    model = model_of(replace(TINY, cell_clip=0.1, output_clip=0.2, residual=False))
    states = model(batch_of([0, 3, 4, 5, 6, 1]))
    assert states.memory[1].abs().max() == pytest.approx(0.1)
    assert states.hidden.abs().max() <= 0.2


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"width": 7}, "architecture.width=7 must be even"),
        ({"filters": ()}, r"such as \[\[2, 64\]\]"),
        ({"filters": ((0, 3),)}, r"found \[\[0, 3\]\]"),
        ({"filters": ((2, 4), (51, 3))}, "a filter over 51 characters, and a word has at most 50"),
        ({"restart_share": 1.5}, "restart_share is a share from 0 to 1; found 1.5"),
        ({"cell_clip": 0.0}, "architecture.cell_clip must be above 0"),
        ({"activation": "swish"}, "Unknown architecture.activation 'swish'"),
    ],
)
def test_settings_that_make_no_network_are_refused(change, found):
    with pytest.raises(SettingError, match=found):
        replace(TINY, **change)


def test_several_processes_can_exchange_its_buffers():
    """gloo, which joins processes on CPUs, knows no 16-bit integers."""
    assert {buffer.dtype for buffer in model_of().buffers()} == {torch.int32}
