"""MT-DNN's answer module for pairs."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError
from plmkit.tasks.kinds.nli import NLI
from plmkit.tasks.kinds.paraphrase import Paraphrase
from plmkit.tasks.san import SanHead

WIDTH = 8


def pair_batch(rows: int = 3) -> tuple[States, Batch]:
    """Rows of two to four tokens of the first text and three of the second, with padding."""
    torch.manual_seed(0)
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0]])[:rows]
    visible = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 6 + [0]]).bool()[:rows]
    side = Side(tokens=torch.ones_like(segments), visible=visible, segments=segments)
    return States(hidden=torch.randn(rows, 7, WIDTH)), Batch(source=side, labels=torch.tensor([0, 1, 2])[:rows])


def head(turns: int = 5) -> SanHead:
    torch.manual_seed(1)
    made = SanHead(width=WIDTH, outputs=3, turns=turns, dropout=0.0)
    for weight in made.parameters():
        torch.nn.init.normal_(weight)
    return made


def one_turn(made: SanHead, hidden: torch.Tensor, first: list[int], second: list[int], state=None):
    """One turn for one row, written out: the probabilities, and the state after it."""
    with torch.no_grad():
        if state is None:
            states = hidden[second]
            state = (F.softmax(states @ made.summarise.weight[0], 0)[:, None] * states).sum(0)
        premise = hidden[first]
        found = (F.softmax(premise @ (made.attend.weight @ state), 0)[:, None] * premise).sum(0)
        pair = torch.cat([state, found, (state - found).abs(), state * found])
        probabilities = F.softmax(made.classify.weight @ pair + made.classify.bias, 0)
        return probabilities, made.cell(found[None], state[None])[0]


@pytest.mark.parametrize("turns", [1, 5])
def test_it_equals_its_formulas_written_out_for_one_row(turns):
    made, (states, batch) = head(turns).eval(), pair_batch()
    with torch.no_grad():
        found = made.answers(states, batch).exp()
    torch.testing.assert_close(found.sum(1), torch.ones(3))
    places = [([0, 1, 2, 3], [4, 5, 6]), ([0, 1], [2, 3, 4]), ([0, 1, 2], [3, 4, 5])]
    for row, (first, second) in enumerate(places):
        expected, state = [], None
        for _ in range(turns):
            probabilities, state = one_turn(made, states.hidden[row], first, second, state)
            expected.append(probabilities)
        torch.testing.assert_close(found[row], torch.stack(expected).mean(0))


def test_padding_changes_nothing():
    made, (states, batch) = head().eval(), pair_batch()
    other = replace(states, hidden=states.hidden.masked_fill(~batch.source.visible[:, :, None], 9.0))
    torch.testing.assert_close(made.answers(states, batch), made.answers(other, batch))


def test_in_training_some_turns_are_dropped_but_never_all_and_the_rest_is_averaged():
    made = head()
    steps = torch.eye(5)[None].expand(4000, 5, 5)  # the mean shows which turns were kept
    torch.manual_seed(0)
    found = made.mean(steps)
    torch.testing.assert_close(found.sum(1), torch.ones(4000))
    kept = (found > 0).sum(1)
    assert kept.min() >= 1
    # one of the five is never dropped, the others with probability 0.1
    assert float(kept.float().mean()) == pytest.approx(5 - 4 * 0.1, abs=0.03)
    assert torch.equal(made.eval().mean(steps), torch.full((4000, 5), 0.2))


def test_evaluation_is_deterministic_and_training_is_not():
    made, (states, batch) = head(), pair_batch()
    made.dropout.share = 0.5
    torch.manual_seed(0)
    assert not torch.equal(made.answers(states, batch), made.answers(states, batch))
    made.eval()
    assert torch.equal(made.answers(states, batch), made.answers(states, batch))


def test_it_is_used_for_more_than_ten_thousand_rows_of_a_joint_fine_tuning_or_as_set():
    words = Vocabulary.from_tokens((*SPECIAL_TOKENS, "w"))
    assert [NLI().jointly(rows, words).san for rows in (10_000, 10_001)] == [False, True]
    assert [NLI(san=san).jointly(rows, words).san for san, rows in ((True, 5), (False, 20_000))] == [True, False]
    assert Paraphrase().jointly(20_000, words).san is None
    assert NLI().jointly(20_000, replace(words, second=0)).san is False  # its two texts cannot be told apart
    with pytest.raises(SettingError, match="two orders"):
        Paraphrase(san=True)
