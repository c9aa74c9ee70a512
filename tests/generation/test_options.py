"""What can be asked of generation, and what is refused."""

import pytest

from plmkit.errors import SettingError
from plmkit.generation.options import GenerationOptions, options_from


@pytest.mark.parametrize("top_p", [0.0, -0.1, 1.0001, float("nan")])
def test_top_p_lies_above_0_and_at_most_at_1(top_p):
    with pytest.raises(SettingError, match="above 0 and at most 1"):
        GenerationOptions(top_p=top_p)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tokens": 0}, "tokens must be a whole number, 1 or more; found 0"),
        ({"n": 0}, "n must be a whole number, 1 or more; found 0"),
        ({"top_k": 0}, "top-k must be a whole number, 1 or more; found 0"),
        ({"beams": 0}, "beams must be a whole number, 1 or more; found 0"),
        ({"temperature": -1}, "temperature must be a finite number, 0 or more; found -1"),
        ({"temperature": float("inf")}, "temperature must be a finite number"),
        ({"stop": ("",)}, "A stop string is empty"),
        ({"beams": 2, "temperature": 1.0, "top_p": 0.5}, "temperature and top-p would have no effect"),
        ({"beams": 2, "n": 3}, "2 beams find at most 2 texts, but n is 3"),
        ({"length_penalty": 1.0}, "set beams as well"),
        ({"beams": 2, "length_penalty": 1e308}, r"length-penalty must be between -10 and 10; found 1e\+308"),
        ({"beams": 2, "length_penalty": -10.5}, r"length-penalty must be between -10 and 10; found -10\.5"),
        ({"beams": 2, "length_penalty": float("nan")}, "length-penalty must be between -10 and 10; found nan"),
        ({"tokens": 10**18}, "tokens can be at most 1,000,000; found 1,000,000,000,000,000,000"),
        ({"beams": 10**9}, "beams can be at most 1,000; found 1,000,000,000"),
        ({"n": 10**9}, "n can be at most 100,000; found 1,000,000,000"),
        ({"temperature": 0, "top_k": 5}, "so top-k would have no effect"),
        ({"temperature": 0, "seed": 0}, "greedy decoding, so seed would have no effect"),
        ({"beams": 2, "seed": 1}, "does not sample, so seed would have no effect"),
        ({"temperature": 0, "n": 2}, "all 2 texts would be the same"),
    ],
)
def test_what_cannot_be_or_would_change_nothing_is_refused(asked, said):
    with pytest.raises(SettingError, match=said):
        GenerationOptions(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"tokens": 1, "n": 1, "top_k": 1},
        {"top_p": 1.0},
        {"top_p": 1e-9},
        {"temperature": 0},
        {"temperature": 1e-6, "n": 2},
        {"beams": 1},
        {"beams": 2, "n": 2},
        {"beams": 2, "length_penalty": 0.0},
    ],
)
def test_the_least_and_the_most_that_can_be_are_taken(asked):
    options = GenerationOptions(**asked)
    assert all(getattr(options, name) == value for name, value in asked.items())


def test_by_default_one_text_of_a_hundred_tokens_is_generated():
    assert (
        GenerationOptions().tokens,
        GenerationOptions().n,
        GenerationOptions().random_seed,
        GenerationOptions().greedy,
    ) == (100, 1, 0, False)


def test_by_default_tokens_are_sampled_from_the_nucleus_at_a_low_temperature():
    assert (GenerationOptions().sampling_temperature, GenerationOptions().nucleus) == (0.8, 0.95)
    assert (GenerationOptions(temperature=0.8).sampling_temperature, GenerationOptions(temperature=0.8).nucleus) == (
        0.8,
        0.95,
    )  # as if not given
    assert (
        GenerationOptions(temperature=1.0, top_p=1.0).sampling_temperature,
        GenerationOptions(temperature=1.0, top_p=1.0).nucleus,
    ) == (1.0, 1.0)
    assert (GenerationOptions(top_k=5).sampling_temperature, GenerationOptions(top_k=5).nucleus) == (0.8, 1.0)


@pytest.mark.parametrize("temperature", [0, 0.0, 5e-324, 1e-320, 1e-30])
def test_next_to_no_temperature_is_none(temperature):
    assert GenerationOptions(temperature=temperature).greedy
    with pytest.raises(SettingError, match="all 2 texts would be the same"):
        GenerationOptions(temperature=temperature, n=2)


def test_callers_from_python_may_give_one_stop_string_and_leave_things_out():
    assert options_from({"stop": "END", "top_k": None, "tokens": 3}) == GenerationOptions(stop=("END",), tokens=3)
    assert options_from({"stop": ["a", "b"], "temperature": 1}) == GenerationOptions(stop=("a", "b"), temperature=1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"temprature": 1.0}, "There is no setting 'temprature'. Did you mean 'temperature'?"),
        ({"tokens": "many"}, "tokens cannot be 'many'"),
        ({"tokens": 2.5}, "tokens cannot be 2.5"),
        ({"seed": 1.5}, "seed cannot be 1.5"),
        ({"n": True}, "n cannot be True"),
        ({"stop": 3}, "stop cannot be 3"),
        ({"stop": [3]}, "stop cannot be"),
    ],
)
def test_impossible_options_are_refused_in_python_too(asked, said):
    with pytest.raises(SettingError) as error:
        options_from(asked)
    assert said in str(error.value)
