import math

import pytest
import torch

from plmkit.layers.sinusoids import SINUSOIDS


@pytest.mark.parametrize(
    ("width", "position", "expected"),
    [
        (4, 1, [0.841471, 0.540302, 0.010000, 0.999950]),
        (4, 2, [0.909297, -0.416147, 0.019999, 0.999800]),
        (6, 3, [0.141120, -0.989992, 0.138798, 0.990321, 0.006463, 0.999979]),
        (6, 0, [0, 1, 0, 1, 0, 1]),
    ],
)
def test_the_papers_sinusoids_alternate_between_sine_and_cosine(width, position, expected):
    (found,) = SINUSOIDS["interleaved"](torch.tensor([position]), width)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32), atol=1e-6, rtol=0)


def test_the_other_layouts_have_all_sines_first():
    places = torch.arange(7)
    paper, halves = SINUSOIDS["interleaved"](places, 8), SINUSOIDS["halves"](places, 8)
    assert torch.equal(halves, torch.cat([paper[:, ::2], paper[:, 1::2]], dim=1))
    theirs = SINUSOIDS["tensor2tensor"](places, 8)
    slowest = 6 / 10_000  # the last of d / 2 waves has the exponent d / 2 - 1 over itself, which is 1
    assert theirs[6, 3].item() == pytest.approx(math.sin(slowest), abs=1e-7)
    assert theirs[6, 7].item() == pytest.approx(math.cos(slowest), abs=1e-7)
    assert theirs[6, 0].item() == pytest.approx(math.sin(6), abs=1e-6)
