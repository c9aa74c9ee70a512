"""Weights and sizes of the objectives where nothing is said, and how far they may go."""

import pytest

from plmkit.choices import OBJECTIVES
from plmkit.errors import SettingError
from plmkit.objectives.causal_lm import AuxiliaryLM
from plmkit.objectives.direction_lm import BackwardLM, ForwardLM
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.replaced_token import ReplacedToken
from plmkit.objectives.span_boundary import SpanBoundary


@pytest.mark.parametrize("kind", OBJECTIVES, ids=lambda kind: kind.__name__)
def test_a_loss_counts_once_but_for_electras_fifty_times_and_half_in_each_of_two_directions(kind):
    assert kind().weight == {ReplacedToken: 50, ForwardLM: 0.5, BackwardLM: 0.5}.get(kind, 1)


def test_sizes_are_the_papers():
    assert (SpanBoundary().positions, SpanBoundary().position_width) == (15, 200)
    assert AuxiliaryLM().ahead == 0.5


@pytest.mark.parametrize("name", ["positions", "position_width"])
def test_a_span_has_a_position_at_least(name):
    assert getattr(SpanBoundary(**{name: 1}), name) == 1
    with pytest.raises(SettingError, match=rf"^objectives\.{name} must be at least 1; found 0\.$"):
        SpanBoundary(**{name: 0})


def test_a_learned_weight_starts_anywhere_above_0():
    assert MaskedLM(weight=1e-9, learned_weight=True).weight == 1e-9
    with pytest.raises(SettingError, match=r"^objectives\.masked_lm\.weight is the initial value .* must be above 0"):
        MaskedLM(weight=0.0, learned_weight=True)
