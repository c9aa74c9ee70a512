"""Options of text generation: length, randomness, search and stop strings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from plmkit.errors import SettingError, nearest
from plmkit.language import comma, tr

TEMPERATURE, TOP_P = 0.8, 0.95  # defaults for text that people read: varied, and rarely off topic
MAX_TOKENS, MAX_TEXTS, MAX_BEAMS = 1_000_000, 100_000, 1_000  # more is a typing error, and would never end
MAX_LENGTH_PENALTY = 10  # at twice that, the score of a long text overflows
MIN_TEMPERATURE = 1e-6  # below this, only the most likely token is left, and dividing overflows


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How a prompt is continued; by default with nucleus sampling (top-p 0.95) at temperature 0.8."""

    tokens: int = 100  # maximum number of new tokens
    temperature: float | None = None  # 0: greedy decoding
    top_k: int | None = None  # sample from this many of the most likely tokens
    top_p: float | None = None  # sample from the most likely tokens with this total probability (Holtzman et al., 2019)
    beams: int | None = None  # beam search with this many beams
    length_penalty: float | None = None  # for beam search: 0 favours short texts (Wu et al., 2016, eq. 14)
    stop: tuple[str, ...] = ()  # the text ends before any of these
    n: int = 1  # texts per prompt
    seed: int | None = None  # None: 0, for sampling

    def __post_init__(self) -> None:
        check_count("tokens", self.tokens, MAX_TOKENS)
        check_count("n", self.n, MAX_TEXTS)
        if self.temperature is not None and not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise SettingError(
                tr(
                    "temperature must be a finite number, 0 or more; found {temperature:g}.",
                    temperature=self.temperature,
                )
            )
        if self.top_k is not None:
            check_count("top-k", self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SettingError(tr("top-p must be above 0 and at most 1; found {top_p:g}.", top_p=self.top_p))
        if self.length_penalty is not None and not abs(self.length_penalty) <= MAX_LENGTH_PENALTY:
            raise SettingError(
                tr(
                    "length-penalty must be between -{max_length_penalty} and {max_length_penalty}; found "
                    "{length_penalty:g}.",
                    max_length_penalty=MAX_LENGTH_PENALTY,
                    length_penalty=self.length_penalty,
                )
            )
        if any(not text for text in self.stop):
            raise SettingError(tr("A stop string is empty, so every text would end immediately. Leave it out."))
        self.check_beams()
        self.check_greedy()

    def check_beams(self) -> None:
        if self.beams is None:
            if self.length_penalty is not None:
                raise SettingError(
                    tr("length-penalty applies to beam search only; set beams as well, or leave it out.")
                )
            return
        check_count("beams", self.beams, MAX_BEAMS)
        sampling = {"temperature": self.temperature, "top-k": self.top_k, "top-p": self.top_p, "seed": self.seed}
        if given := [name for name, value in sampling.items() if value is not None]:
            raise SettingError(
                tr(
                    "Beam search does not sample, so {given} would have no effect. Leave out one or the other.",
                    given=tr(" and ").join(given),
                )
            )
        if self.n > self.beams:
            raise SettingError(
                tr(
                    "{beams} beams find at most {beams} texts, but n is {n}. Use more beams.",
                    beams=self.beams,
                    n=self.n,
                )
            )

    def check_greedy(self) -> None:
        if not self.greedy:
            return
        sampling = {"top-k": self.top_k, "top-p": self.top_p, "seed": self.seed}
        if given := [name for name, value in sampling.items() if value is not None]:
            raise SettingError(
                tr(
                    "Temperature {temperature:g} is greedy decoding, so {given} would have no effect. "
                    "Leave out one or the other, or set a temperature above 0.",
                    temperature=self.temperature,
                    given=tr(" and ").join(given),
                )
            )
        if self.n > 1:
            raise SettingError(
                tr(
                    "Temperature {temperature:g} is greedy decoding, so all {n} texts would be the same. Set a "
                    "temperature above 0, or beams.",
                    temperature=self.temperature,
                    n=self.n,
                )
            )

    @property
    def greedy(self) -> bool:
        return self.beams is None and self.sampling_temperature < MIN_TEMPERATURE

    @property
    def sampling_temperature(self) -> float:
        return TEMPERATURE if self.temperature is None else self.temperature

    @property
    def random_seed(self) -> int:
        return self.seed or 0

    @property
    def nucleus(self) -> float:
        """Top-p; 1 if only top-k is given."""
        if self.top_p is None:
            return TOP_P if self.top_k is None else 1.0
        return self.top_p


def check_count(name: str, value: int, maximum: int | None = None) -> None:
    if value < 1:
        raise SettingError(tr("{name} must be a whole number, 1 or more; found {value}.", name=name, value=value))
    if maximum is not None and value > maximum:
        raise SettingError(
            tr("{name} can be at most {maximum:,}; found {value:,}.", name=name, maximum=maximum, value=value)
        )


def options_from(given: Mapping[str, Any]) -> GenerationOptions:
    """Options from keyword arguments; a single stop string need not be in a list."""
    defaults = {field.name: field.default for field in fields(GenerationOptions)}
    for name, value in given.items():
        if name not in defaults:
            raise SettingError(
                tr(
                    "There is no setting '{name}'.{hint} Known: {defaults}.",
                    name=name,
                    hint=nearest(name, defaults),
                    defaults=comma().join(sorted(defaults)),
                )
            )
        if name == "stop":
            wrong = not isinstance(value, str | list | tuple) or not all(isinstance(part, str) for part in value)
        else:
            kinds = int if name in ("tokens", "top_k", "beams", "n", "seed") else int | float
            wrong = value is not defaults[name] and (isinstance(value, bool) or not isinstance(value, kinds))
        if wrong:
            raise SettingError(tr("{name} cannot be {value!r}.", name=name, value=value))
    stop = given.get("stop", ())
    return GenerationOptions(**{**given, "stop": (stop,) if isinstance(stop, str) else tuple(stop)})
