"""A paper as five choices: tokenizer, corruption, architecture, objectives, schedule."""

from dataclasses import dataclass
from typing import Any

from plmkit.architectures.encoder import Encoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.corruption.arrange import SentencePairs
from plmkit.corruption.token import TokenMasking
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import RecipeError
from plmkit.network import Network
from plmkit.objectives.adversarial_generator import AdversarialGenerator
from plmkit.objectives.generator_lm import GeneratorLM
from plmkit.objectives.learned_weight import LearnedWeight
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.replaced_token import ReplacedToken
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.schedules.optimizers import AdamW, BertAdam
from plmkit.schedules.schedule import Schedule
from plmkit.settings import from_json
from plmkit.tokenizers.wordpiece import WordPiece

TOKENIZERS = (WordPiece,)
ARRANGEMENTS = (SentencePairs,)
HIDINGS = (TokenMasking,)
ARCHITECTURES = (Encoder, GeneratorDiscriminator)
OBJECTIVES = (MaskedLM, NextSentence, GeneratorLM, ReplacedToken, AdversarialGenerator)
WEIGHTINGS = (LearnedWeight,)  # an objective around an objective
OPTIMIZERS = (AdamW, BertAdam)
Architecture = Encoder | GeneratorDiscriminator


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One paper, or one size of it."""

    name: str
    paper: str
    summary: str
    notes: str = ""  # where the settings leave the paper, and why
    vocabulary: int  # tokens in the paper's own vocabulary, for parameter counts
    tokenizer: WordPiece
    corruption: tuple[Any, ...]  # the first arranges documents into rows, the others hide
    architecture: Architecture
    objectives: tuple[Any, ...]
    schedule: Schedule

    def __post_init__(self) -> None:
        check_fit(self)

    def build(self, vocabulary: Vocabulary) -> Network:
        model = self.architecture.build(vocabulary)
        heads = {objective.name: objective.build(model) for objective in self.objectives}
        for head in heads.values():
            if hasattr(head, "join"):  # it asks another head
                head.join(heads)
        return Network(model, heads, {objective.name: objective.weight for objective in self.objectives})


def check_fit(recipe: Recipe) -> None:
    """A recipe whose parts do not fit cannot be built."""
    makers = [*recipe.corruption, recipe.architecture]
    makers += [objective for objective in recipe.objectives if hasattr(objective, "writes")]
    written = frozenset().union(*(maker.writes for maker in makers))
    for objective in recipe.objectives:
        if missing := objective.reads - written:
            names = ", ".join(type(maker).__name__ for maker in makers)
            raise RecipeError(
                f"{recipe.name}: {type(objective).__name__} reads {', '.join(sorted(missing))}, "
                f"but none of {names} writes it.\n"
                "Choose a corruption or architecture that does, or drop the objective."
            )
        if objective.weight < 0:
            raise RecipeError(
                f"{recipe.name}: objectives.{objective.name}.weight is {objective.weight}; it cannot be below 0."
            )
    if recipe.schedule.longest > recipe.architecture.longest:
        raise RecipeError(
            f"{recipe.name}: schedule.lengths asks for rows of {recipe.schedule.longest} tokens, "
            f"but architecture.longest is {recipe.architecture.longest}. Change one of them."
        )


def recipe_from_json(data: dict[str, Any]) -> Recipe:
    kinds = (
        *TOKENIZERS,
        *ARRANGEMENTS,
        *HIDINGS,
        *ARCHITECTURES,
        *OBJECTIVES,
        *WEIGHTINGS,
        *OPTIMIZERS,
        Schedule,
        Recipe,
    )
    return from_json(data, {kind.__name__: kind for kind in kinds})
