"""What can be asked of generation, and what is refused."""

import pytest

from plmkit.errors import SettingError
from plmkit.generation.writing import Writing, writing_of


@pytest.mark.parametrize("top_p", [0.0, -0.1, 1.0001, float("nan")])
def test_top_p_lies_above_0_and_at_most_at_1(top_p):
    with pytest.raises(SettingError, match="above 0 and at most 1"):
        Writing(top_p=top_p)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tokens": 0}, "tokens is a whole number, 1 or more; found 0"),
        ({"n": 0}, "n is a whole number, 1 or more; found 0"),
        ({"top_k": 0}, "top-k is a whole number, 1 or more; found 0"),
        ({"beams": 0}, "beams is a whole number, 1 or more; found 0"),
        ({"temperature": -1}, "temperature is a finite number, 0 or more; found -1"),
        ({"temperature": float("inf")}, "temperature is a finite number"),
        ({"stop": ("",)}, "A stop string is empty"),
        ({"beams": 2, "temperature": 1.0, "top_p": 0.5}, "temperature and top-p would change nothing"),
        ({"beams": 2, "n": 3}, "2 beams find at most as many texts, but n is 3"),
        ({"length_penalty": 1.0}, "give beams as well"),
        ({"beams": 2, "length_penalty": 1e308}, r"length-penalty lies between -10 and 10; found 1e\+308"),
        ({"beams": 2, "length_penalty": -10.5}, r"length-penalty lies between -10 and 10; found -10\.5"),
        ({"beams": 2, "length_penalty": float("nan")}, "length-penalty lies between -10 and 10; found nan"),
        ({"tokens": 10**18}, "tokens is at most 1,000,000; found 1,000,000,000,000,000,000"),
        ({"beams": 10**9}, "beams is at most 1,000; found 1,000,000,000"),
        ({"n": 10**9}, "n is at most 100,000; found 1,000,000,000"),
        ({"temperature": 0, "top_k": 5}, "top-k and top-p would change nothing"),
        ({"temperature": 0, "n": 2}, "all 2 texts would be the same"),
    ],
)
def test_what_cannot_be_or_would_change_nothing_is_refused(asked, said):
    with pytest.raises(SettingError, match=said):
        Writing(**asked)


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
    writing = Writing(**asked)
    assert all(getattr(writing, name) == value for name, value in asked.items())


def test_a_hundred_tokens_of_one_text_are_written_where_nothing_is_said():
    assert (Writing().tokens, Writing().n, Writing().seed, Writing().greedy) == (100, 1, 0, False)


def test_what_is_not_told_is_drawn_at_a_mild_temperature_from_the_likeliest():
    assert (Writing().heat, Writing().share) == (0.8, 0.95)
    assert (Writing(temperature=0.8).heat, Writing(temperature=0.8).share) == (0.8, 0.95)  # as if not told
    assert (Writing(temperature=1.0, top_p=1.0).heat, Writing(temperature=1.0, top_p=1.0).share) == (1.0, 1.0)
    assert (Writing(top_k=5).heat, Writing(top_k=5).share) == (0.8, 1.0)


@pytest.mark.parametrize("temperature", [0, 0.0, 5e-324, 1e-320, 1e-30])
def test_next_to_no_temperature_is_none(temperature):
    assert Writing(temperature=temperature).greedy
    with pytest.raises(SettingError, match="all 2 texts would be the same"):
        Writing(temperature=temperature, n=2)


def test_callers_from_python_may_give_one_stop_string_and_leave_things_out():
    assert writing_of({"stop": "END", "top_k": None, "tokens": 3}) == Writing(stop=("END",), tokens=3)
    assert writing_of({"stop": ["a", "b"], "temperature": 1}) == Writing(stop=("a", "b"), temperature=1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"temprature": 1.0}, "There is no setting 'temprature'. Did you mean 'temperature'?"),
        ({"tokens": "many"}, "tokens cannot be 'many'"),
        ({"tokens": 2.5}, "tokens cannot be 2.5"),
        ({"seed": None}, "seed cannot be None"),
        ({"n": True}, "n cannot be True"),
        ({"stop": 3}, "stop cannot be 3"),
        ({"stop": [3]}, "stop cannot be"),
    ],
)
def test_callers_from_python_are_told_what_cannot_be(asked, said):
    with pytest.raises(SettingError) as error:
        writing_of(asked)
    assert said in str(error.value)
