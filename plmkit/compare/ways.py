"""The ways to train one of several tasks, and what they are called."""

from plmkit.language import tr

ALONE, JOINT, THEN = "alone", "joint", "then"  # also the folders of those that train one task


def way_titles() -> dict[str, str]:
    """In the order in which they are shown."""
    return {ALONE: tr("alone"), JOINT: tr("joint"), THEN: tr("then alone")}
