"""What the field calls a recipe, by what its objectives read and in which order they predict."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plmkit.language import tr

if TYPE_CHECKING:
    from plmkit.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Label:
    """A family of objectives."""

    name: str
    short: str  # as tables show it


AUTOREGRESSIVE = Label(name="autoregressive", short="AR")
AUTOENCODING = Label(name="autoencoding", short="AE")
PERMUTED = Label(name="permuted", short="PLM")
REPLACED_TOKEN = Label(name="replaced-token", short="RTD")
BIDIRECTIONAL_LM = Label(name="bidirectional-lm", short="biLM")
SEQ2SEQ = Label(name="seq2seq", short="seq2seq")
LABELS = (AUTOREGRESSIVE, AUTOENCODING, PERMUTED, REPLACED_TOKEN, BIDIRECTIONAL_LM, SEQ2SEQ)

BY_FIELD = {"target": SEQ2SEQ, "attention_order": PERMUTED, "replaced": REPLACED_TOKEN, "reversed": BIDIRECTIONAL_LM}


def label_of(recipe: "Recipe") -> Label | None:
    """By a field of the batch that only one family reads; else by the direction. None: it predicts no tokens."""
    read = frozenset().union(*(objective.reads for objective in recipe.objectives))
    if found := [label for field, label in BY_FIELD.items() if field in read]:
        return found[0]
    if any(objective.left_to_right for objective in recipe.objectives):
        return AUTOREGRESSIVE if not recipe.architecture.reads_images else SEQ2SEQ  # an image is a source too
    return AUTOENCODING if "targets" in read else None


def explained(label: Label) -> str:
    """What a prediction may read, in a sentence."""
    return {
        AUTOREGRESSIVE: tr("Autoregressive (AR): each token is predicted from those before it."),
        AUTOENCODING: tr("Autoencoding (AE): masked tokens are predicted from both sides, each on its own."),
        PERMUTED: tr(
            "Permuted (PLM): tokens are predicted one after the other in random orders, each from its position and the "
            "tokens before it in that order."
        ),
        REPLACED_TOKEN: tr(
            "Replaced-token detection (RTD): for every token, was it replaced? Read from both sides, the token itself "
            "included."
        ),
        BIDIRECTIONAL_LM: tr(
            "Bidirectional language model (biLM): two networks, one per direction; each predicts a token from its own "
            "side."
        ),
        SEQ2SEQ: tr(
            "Sequence to sequence (seq2seq): each token of the target is predicted from the whole source and the "
            "target before it."
        ),
    }[label]
