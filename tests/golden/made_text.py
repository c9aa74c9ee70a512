"""Made text, the same on every machine: words of uneven frequency, so that no two of them are equally frequent."""

import random
from pathlib import Path

ENGLISH = (
    "the cat|the old dog|a bird|my friend|some children|the teacher of music|Kim|the king".split("|"),
    "sees|likes|follows|doesn't hear|met|has found|is painting|calls".split("|"),
    "a house|the river|a red car|the moon|an apple|our garden|a long, long road|the sea".split("|"),
    ".|?|!| today.| in the morning.| again and again.".split("|"),
)
CHINESE = (
    "我的狗|小明|老师|北京大学的学生|企鹅|她们|张三|一只黑猫".split("|"),
    "喜欢|看见了|不擅长|知道|离开|忘记了|画|找到".split("|"),
    "苹果|长江|飞行|音乐|天安门广场|月亮|红色的汽车|上海".split("|"),
    "。|？|！|，醒醒吧。".split("|"),
)


def sentence(language: tuple[list[str], ...], between: str, rng: random.Random) -> str:
    """One of each list, the first ones oftener."""
    *words, end = (rng.choices(some, [1 / (n + 1) for n in range(len(some))])[0] for some in language)
    return between.join(words) + end


def document(number: int, rng: random.Random) -> str:
    """Two of three are English."""
    language, between = (CHINESE, "") if number % 3 == 2 else (ENGLISH, " ")
    return "\n".join(sentence(language, between, rng) for _ in range(rng.randint(3, 8)))


def write_corpus(path: Path, documents: int, seed: int) -> Path:
    """Documents of three to eight sentences, one on each line, with a blank line between two."""
    rng = random.Random(seed)
    path.write_text("\n\n".join(document(n, rng) for n in range(documents)) + "\n", encoding="utf-8")
    return path


def write_pairs(path: Path, pairs: int, seed: int) -> Path:
    """A table of English sentences and Chinese ones, word by word at the same places of the lists."""
    rng = random.Random(seed)
    lines = ["en\tzh"]
    for _ in range(pairs):
        places = [rng.randrange(min(len(some), len(other))) for some, other in zip(ENGLISH, CHINESE, strict=True)]
        english, chinese = ([some[at] for some, at in zip(words, places, strict=True)] for words in (ENGLISH, CHINESE))
        lines.append(" ".join(english[:-1]) + english[-1] + "\t" + "".join(chinese))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
