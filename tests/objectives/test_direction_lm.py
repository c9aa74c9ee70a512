"""A language model in each direction: its loss by hand, and samples instead of the whole softmax."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.elmo import Elmo
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.errors import SettingError
from plmkit.layers.vocabulary_head import SampledSoftmax, expected_counts, log_uniform
from plmkit.objectives.direction_lm import ForwardLM
from plmkit.recipe import Recipe
from plmkit.tokenizers.counted import sentence_words

WORDS = sentence_words(["<S>", "</S>", "<UNK>", *"the cat sat on a mat dog ran off".split()]).vocabulary
TINY = Elmo(layers=2, width=8, cell=6, filters=((1, 3), (2, 4)), characters=3, highways=1, dropout=0.0)


def recipe(**settings) -> Recipe:
    elmo = find("elmo-tiny")
    return replace(elmo, architecture=TINY, objectives=(ForwardLM(**settings), elmo.objectives[1]))


def network_of(**settings):
    torch.manual_seed(0)
    return recipe(**settings).build(WORDS).double().eval()


def batch_of(text: list[int]) -> Batch:
    """A sentence read forwards, and read backwards."""
    rows = torch.tensor([text, text[::-1]])
    return Batch(
        source=Side(tokens=rows[:, :-1], visible=torch.ones_like(rows[:, 1:], dtype=torch.bool)),
        targets=rows[:, 1:], reversed=torch.tensor([False, True]),
    )  # fmt: skip


def test_the_loss_is_the_mean_of_both_directions_each_by_hand():
    network, text = network_of(), [0, 3, 4, 5, 1]
    outcome = network(batch_of(text))
    whole = network.model(Batch(source=Side(tokens=torch.tensor([text]), visible=torch.ones(1, 5, dtype=torch.bool))))
    softmax = network.heads["forward_lm"].vocabulary
    onward = F.cross_entropy(softmax(whole.hidden[0, :-1, :4]), torch.tensor(text[1:]))
    backward = F.cross_entropy(softmax(whole.hidden[0, 1:, 4:]), torch.tensor(text[:-1]))
    torch.testing.assert_close(outcome.losses["forward_lm"], onward)
    torch.testing.assert_close(outcome.losses["backward_lm"], backward)
    torch.testing.assert_close(sum(outcome.weighted.values()), (onward + backward) / 2)


def test_reversing_the_text_and_the_networks_swaps_the_two_losses():
    network = network_of()
    own = network(batch_of([0, 3, 4, 5, 1])).losses
    onward, backward = network.model.directions
    kept = {name: tensor.clone() for name, tensor in onward.state_dict().items()}
    onward.load_state_dict(backward.state_dict())
    backward.load_state_dict(kept)
    turned = network(batch_of([1, 5, 4, 3, 0])).losses
    torch.testing.assert_close(turned["forward_lm"], own["backward_lm"])
    torch.testing.assert_close(turned["backward_lm"], own["forward_lm"])
    assert not torch.allclose(own["forward_lm"], own["backward_lm"])


def test_both_directions_share_words_and_softmax_and_nothing_else():
    network = network_of()
    names = set(network.state_dict())
    assert {name for name in names if name.startswith("heads.")} == {
        "heads.forward_lm.vocabulary.weight", "heads.forward_lm.vocabulary.bias"
    }  # fmt: skip
    assert network.heads["backward_lm"].softmax is network.heads["forward_lm"].vocabulary
    onward, backward = (list(part.parameters()) for part in network.model.directions)
    assert not {part.data_ptr() for part in onward} & {part.data_ptr() for part in backward}
    for way in (0, 1):
        some = batch_of([0, 3, 4, 5, 1]).part(way, way + 1)
        network.zero_grad()
        sum(network(some).losses.values()).backward()
        moved = {name for name, part in network.named_parameters() if part.grad is not None}
        assert {"model.embed.characters.weight", "heads.forward_lm.vocabulary.weight"} <= moved
        assert not any(name.startswith(f"model.directions.{1 - way}.") for name in moved)


def test_a_batch_of_one_direction_has_its_loss_only():
    network = network_of()
    assert network(batch_of([0, 3, 1]).part(1, 2)).losses.keys() == {"backward_lm"}


def test_rare_words_are_predicted_as_unknown():
    network, batch = network_of(words=5), batch_of([0, 3, 9, 4, 1])
    assert network.heads["forward_lm"].vocabulary.weight.shape == (5, 4)
    as_unknown = replace(batch, targets=torch.where(batch.targets == 9, WORDS.unknown, batch.targets))
    torch.testing.assert_close(network(batch).losses, network(as_unknown).losses)


def test_an_architecture_without_directions_is_refused():
    with pytest.raises(SettingError, match="Encoder has no network per direction"):
        ForwardLM().build(find("bert-tiny").architecture.build(WORDS))
    with pytest.raises(SettingError, match="samples must be 0 or more"):
        ForwardLM(samples=-1)


def test_samples_are_distinct_and_as_frequent_as_the_rule_says():
    torch.manual_seed(0)
    counts, expected = torch.zeros(50), torch.zeros(50)
    for _ in range(2000):
        sampled, draws = log_uniform(50, 10)
        assert len(sampled.unique()) == 10 and draws >= 10
        counts[sampled] += 1
        expected += expected_counts(torch.arange(50), 50, draws)
    assert counts.sum() == 20_000
    torch.testing.assert_close(counts / 2000, expected / 2000, atol=0.05, rtol=0)
    shares = expected_counts(torch.arange(50), 50, 1)  # of one draw: log((n + 2) / (n + 1)) / log(51)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == pytest.approx(0.176290, abs=2e-6)


def test_the_loss_of_samples_is_a_softmax_over_target_and_samples_by_expected_counts():
    torch.manual_seed(0)
    softmax = SampledSoftmax(9, 3, samples=2, unknown=2)
    hidden, targets, sampled = torch.randn(2, 3), torch.tensor([4, 7]), torch.tensor([1, 7, 5])
    found = softmax.sampled_loss(hidden, targets, sampled, 6)
    counts, losses = expected_counts(torch.arange(9), 9, 6), []
    for state, target in zip(hidden, targets.tolist(), strict=True):
        others = [word for word in sampled.tolist() if word != target]  # a sample that is the target is left out
        scores = [softmax(state)[word] - counts[word].log() for word in (target, *others)]
        losses.append(-torch.stack(scores).log_softmax(0)[0])
    torch.testing.assert_close(found, torch.stack(losses).mean())


def test_a_large_softmax_is_sampled_in_training_and_whole_on_held_out_text():
    torch.manual_seed(0)
    hidden, targets = torch.randn(5, 3), torch.randint(40, (5,))
    softmax = SampledSoftmax(40, 3, samples=4, unknown=2)
    whole = F.cross_entropy(softmax(hidden), targets)
    torch.testing.assert_close(softmax.eval().loss(hidden, targets), whole)
    sampled = torch.stack([softmax.train().loss(hidden, targets) for _ in range(3)])
    assert len(sampled.unique()) == 3 and not torch.isclose(sampled, whole).any()
    few = SampledSoftmax(40, 3, samples=20, unknown=2).train()  # too few words to gain by it
    torch.testing.assert_close(few.loss(hidden, targets), F.cross_entropy(few(hidden), targets))


def test_no_loss_where_nothing_is_predicted():
    network, batch = network_of(), batch_of([0, 3, 1])
    nothing = replace(batch, targets=torch.full_like(batch.targets, IGNORE))
    assert network(nothing).losses == {}
