"""The generator and the discriminator as separate networks, with the weight names of a single encoder."""

from dataclasses import dataclass

from torch import Tensor

from plmkit.architectures.encoder import Encoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator

SHARED = "model.embed."


@dataclass(frozen=True, kw_only=True)
class Alone:
    """An encoder with its head."""

    architecture: Encoder
    weights: dict[str, Tensor]


def generator_alone(architecture: GeneratorDiscriminator, weights: dict[str, Tensor]) -> Alone:
    """The generator with a MaskedLM head; its own embeddings, if any, replace the shared ones."""
    places = {"model.generator.": "model.", "model.vocabulary.": "heads.masked_lm.vocabulary."}
    return Alone(architecture=architecture.generator_encoder, weights=moved(weights, places))


def discriminator_alone(architecture: GeneratorDiscriminator, weights: dict[str, Tensor]) -> Alone:
    places = {"model.discriminator.": "model.", "heads.": "heads."}
    return Alone(architecture=architecture.discriminator_encoder, weights=moved(weights, places))


def moved(weights: dict[str, Tensor], places: dict[str, str]) -> dict[str, Tensor]:
    """The shared embeddings, then the weights with these prefixes, renamed."""
    out = {name: tensor for name, tensor in weights.items() if name.startswith(SHARED)}
    for old, new in places.items():
        out |= {new + name.removeprefix(old): tensor for name, tensor in weights.items() if name.startswith(old)}
    return out
