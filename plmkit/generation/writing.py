"""How a text is to go on: how long, how freely, until what."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from plmkit.errors import SettingError, nearest

TEMPERATURE, TOP_P = 0.8, 0.95  # of a text for people: varied, and rarely off the track
MOST_TOKENS, MOST_TEXTS, MOST_BEAMS = 1_000_000, 100_000, 1_000  # more is a slip, and would never end
STRONGEST = 10  # length penalty: twice that, and a long text's score is beyond all numbers
COLDEST = 1e-6  # below, scores that differ at all leave only the likeliest token, and dividing them overflows


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What is asked of generation; what is not told is drawn at temperature 0.8, from the likeliest 95 % or top-k."""

    tokens: int = 100  # new ones, at most
    temperature: float | None = None  # 0: the likeliest token every time
    top_k: int | None = None  # draw from so many of the likeliest
    top_p: float | None = None  # draw from the likeliest that have this share together (Holtzman et al., 2019)
    beams: int | None = None  # search for the likeliest text, this many at a time
    length_penalty: float | None = None  # of beams: 0 favours short texts (Wu et al., 2016, eq. 14)
    stop: tuple[str, ...] = ()  # the text ends before any of these
    n: int = 1  # texts for each prompt
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("tokens", self.tokens, MOST_TOKENS)
        check_count("n", self.n, MOST_TEXTS)
        if self.temperature is not None and not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise SettingError(f"temperature is a finite number, 0 or more; found {self.temperature:g}.")
        if self.top_k is not None:
            check_count("top-k", self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise SettingError(
                f"top-p is the share of probability to draw from, above 0 and at most 1; found {self.top_p:g}."
            )
        if self.length_penalty is not None and not abs(self.length_penalty) <= STRONGEST:
            raise SettingError(
                f"length-penalty lies between -{STRONGEST} and {STRONGEST}; found {self.length_penalty:g}."
            )
        if any(not text for text in self.stop):
            raise SettingError("A stop string is empty, so every text would end at once. Leave it out.")
        self.check_beams()
        self.check_greedy()

    def check_beams(self) -> None:
        if self.beams is None:
            if self.length_penalty is not None:
                raise SettingError("length-penalty weighs the texts of a beam search; give beams as well.")
            return
        check_count("beams", self.beams, MOST_BEAMS)
        drawn = {"temperature": self.temperature, "top-k": self.top_k, "top-p": self.top_p}
        if given := [name for name, value in drawn.items() if value is not None]:
            raise SettingError(
                f"Beams search for the likeliest text and draw nothing, so {' and '.join(given)} would change nothing. "
                "Leave out one or the other."
            )
        if self.n > self.beams:
            raise SettingError(f"{self.beams} beams find at most as many texts, but n is {self.n}. Give more beams.")

    def check_greedy(self) -> None:
        if not self.greedy:
            return
        if self.top_k is not None or self.top_p is not None:
            raise SettingError(
                f"At temperature {self.temperature:g} the likeliest token is taken every time, so top-k and top-p "
                "would change nothing. Leave them out, or give a temperature above 0."
            )
        if self.n > 1:
            raise SettingError(
                f"At temperature {self.temperature:g} all {self.n} texts would be the same. "
                "Give a temperature above 0, or beams."
            )

    @property
    def greedy(self) -> bool:
        return self.beams is None and self.heat < COLDEST

    @property
    def heat(self) -> float:
        return TEMPERATURE if self.temperature is None else self.temperature

    @property
    def share(self) -> float:
        """Top-p; where top-k is given without it, that alone decides."""
        if self.top_p is None:
            return TOP_P if self.top_k is None else 1.0
        return self.top_p


def check_count(name: str, value: int, most: int | None = None) -> None:
    if value < 1:
        raise SettingError(f"{name} is a whole number, 1 or more; found {value}.")
    if most is not None and value > most:
        raise SettingError(f"{name} is at most {most:,}; found {value:,}.")


def writing_of(asked: Mapping[str, Any]) -> Writing:
    """What a caller from Python asks for; one stop string may stand alone."""
    known = {field.name: field.default for field in fields(Writing)}
    for name, value in asked.items():
        if name not in known:
            raise SettingError(
                f"There is no setting '{name}'.{nearest(name, known)} Known: {', '.join(sorted(known))}."
            )
        if name == "stop":
            wrong = not isinstance(value, str | list | tuple) or not all(isinstance(part, str) for part in value)
        else:
            kinds = int if name in ("tokens", "top_k", "beams", "n", "seed") else int | float
            wrong = value is not known[name] and (isinstance(value, bool) or not isinstance(value, kinds))
        if wrong:
            raise SettingError(f"{name} cannot be {value!r}.")
    stop = asked.get("stop", ())
    return Writing(**{**asked, "stop": (stop,) if isinstance(stop, str) else tuple(stop)})
