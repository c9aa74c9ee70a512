import torch

from plmkit.layers.recording import record, recording


def test_weights_are_computed_only_while_somebody_records():
    asked = []

    def weights():
        asked.append(1)
        return torch.ones(1, 1, 2, 2) / 2

    record(weights)
    assert not asked
    with recording() as kept:
        record(weights, memory=1)
        record(weights, kind="cross")
    record(weights)
    assert len(asked) == 2
    assert [(one.kind, one.memory, one.weights.shape) for one in kept] == [
        ("self", 1, (1, 1, 2, 2)),
        ("cross", 0, (1, 1, 2, 2)),
    ]


def test_a_recording_inside_another_keeps_its_own():
    with recording() as outer:
        with recording() as inner:
            record(lambda: torch.zeros(1, 1, 1, 1))
        record(lambda: torch.ones(1, 1, 1, 1))
    assert [one.weights.item() for one in inner] == [0.0]
    assert [one.weights.item() for one in outer] == [1.0]
