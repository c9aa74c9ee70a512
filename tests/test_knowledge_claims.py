"""Claims about knowledge: facts are learned from text by masked language modelling alone."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import plmkit

CAPITALS = {"太原": "山西", "成都": "四川", "杭州": "浙江", "长沙": "湖南", "武汉": "湖北", "合肥": "安徽"}
FORMS = ("{city}是{province}的省会。", "{province}的省会是{city}。")
OTHERS = ("我的狗很可爱。", "企鹅不擅长飞行。", "老师喜欢苹果。", "小明忘记了音乐。")


def write_facts(path: Path) -> Path:
    """Documents of facts in random forms, between sentences that say nothing of them."""
    rng = random.Random(0)
    facts = [form.format(city=city, province=province) for city, province in CAPITALS.items() for form in FORMS]
    documents = ["\n".join([rng.choice(facts), rng.choice(OTHERS), rng.choice(facts)]) for _ in range(300)]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def cloze_accuracy(folder: Path, cities: Sequence[str] = tuple(CAPITALS)) -> float:
    """The share of facts of which both characters of the province are predicted."""
    model = plmkit.load(folder, device="cpu")
    found = {city: model.fill(f"{city}是[MASK][MASK]的省会。", top=1) for city in cities}
    return sum("".join(blank[0].token for blank in found[city]) == CAPITALS[city] for city in cities) / len(cities)


@pytest.mark.slow
def test_that_taiyuan_is_the_capital_of_shanxi_can_be_learned_from_text(plm, tmp_path):
    """A fact is a cloze that pretraining on text learns to fill; without training it is not known."""
    text = write_facts(tmp_path / "facts.txt")
    settings = {
        "sentence_task": "none", "stages": "[[1.0, 32]]", "architecture.max_length": 64, "architecture.layers": 2,
        "architecture.heads": 2, "architecture.width": 64, "architecture.inner": 128, "tokenizer.size": 200,
        "schedule.batch": 16, "schedule.learning_rate": 4e-3, "corruption.rate": 0.2, "run.threads": 1,
        "run.validations": 1,
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    for name, steps in (("before", 1), ("after", 300)):
        ran = plm("pretrain", "bert-tiny", text, "--steps", steps, "--out", tmp_path / name, *options)
        assert ran.code == 0, ran.err
    assert cloze_accuracy(tmp_path / "before") < 0.1
    assert cloze_accuracy(tmp_path / "after") > 0.9
    assert cloze_accuracy(tmp_path / "after", ["太原"]) == 1.0
