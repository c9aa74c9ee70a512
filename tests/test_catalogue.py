import re
from dataclasses import fields, is_dataclass, replace

import pytest

from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import OBJECTIVES
from plmkit.config.counting import encoder_parameters, least_weights, parameters
from plmkit.config.settings import to_json
from plmkit.errors import RecipeError
from plmkit.objectives.contract import FIELDS
from plmkit.recipe import DataStream, recipe_from_json
from plmkit.schedules.schedule import Stage
from plmkit.tasks.settings import TaskSettings

COUNTS = {
    "bert-tiny": (4_385_920, 4_433_468),
    "bert-mini": (11_170_560, 11_267_900),
    "bert-small": (28_763_648, 29_058_876),
    "bert-medium": (41_373_184, 41_668_412),
    "bert-base": (109_482_240, 110_106_428),
    "bert-large": (335_141_888, 336_226_108),
    "bert-base-cased": (108_310_272, 108_932_934),
    "bert-large-cased": (333_579_264, 334_661_958),
    "bert-base-chinese": (102_267_648, 102_882_442),
    "roberta-tiny": (6_896_640, 6_963_673),
    "roberta-mini": (16_159_232, 16_275_801),
    "roberta-base": (124_055_040, 124_697_433),
    "roberta-large": (354_310_144, 355_412_057),
    "bert-wwm-mini": (11_170_560, 11_267_900),
    "bert-wwm-base": (109_482_240, 110_106_428),
    "bert-wwm-chinese": (102_267_648, 102_882_442),
    "distilbert-mini": (9_524_736, 9_621_562),  # without segments and pooler
    "distilbert-base": (66_362_880, 66_985_530),
    "tinybert-4l": (14_350_248, 14_479_676),
    "tinybert-6l": (66_955_008, 67_579_196),
    "spanbert-mini": (11_104_768, 11_484_460),  # without a pooler
    "spanbert-base": (107_719_680, 110_300_480),
    "spanbert-large": (332_529_664, 336_998_976),
    "ernie-mini": (7_964_928, 8_049_746),
    "ernie-1.0": (99_866_112, 100_477_778),
    "ernie2-tiny": (4_388_224, 4_439_900),
    "ernie2-mini": (11_175_168, 11_280_732),
    "ernie2-base": (109_496_064, 110_144_860),
    "ernie2-large": (335_160_320, 336_277_340),
    "kg-stage": (11_170_560, 11_616_904),  # as of bert-mini, a table of 1,000 entities and 100 relations
    "albert-tiny": (2_176_128, 2_214_770),
    "albert-mini": (4_794_624, 4_858_290),
    "albert-base": (11_683_584, 11_813_810),
    "albert-large": (17_683_968, 17_847_474),
    "albert-xlarge": (58_724_864, 59_021_490),
    "albert-xxlarge": (222_595_584, 223_158_450),
    # the two networks together, what they share counted once; tests/recipes/test_electra.py has each
    "electra-tiny": (4_516_730, 4_533_371),
    "electra-tiny-adversarial": (4_516_730, 4_533_371),
    "electra-tiny-weighted": (4_516_730, 4_533_373),
    "electra-mini": (8_005_306, 8_071_355),
    "electra-small": (14_130_170, 14_196_219),
    "electra-base": (118_795_066, 119_386_427),
    "electra-large": (353_604_666, 354_655_291),
    "gpt1-tiny": (5_610_496, 5_610_496),  # the token table is its head as well
    "gpt1-mini": (13_586_944, 13_586_944),
    "gpt1": (116_534_784, 116_534_784),
    "gpt2-tiny": (6_862_464, 6_862_464),
    "gpt2-mini": (16_090_880, 16_090_880),
    "gpt2-small": (124_439_808, 124_439_808),
    "gpt2-medium": (354_823_168, 354_823_168),
    "gpt2-large": (774_030_080, 774_030_080),
    "gpt2-xl": (1_557_611_200, 1_557_611_200),
    "gpt3-tiny": (6_862_464, 6_862_464),
    "gpt3-mini": (16_090_880, 16_090_880),
    "gpt3-125m": (125_226_240, 125_226_240),
    "gpt3-350m": (355_871_744, 355_871_744),
    "gpt3-760m": (760_300_032, 760_300_032),
    "gpt3-1.3b": (1_315_723_264, 1_315_723_264),
    "gpt3-2.7b": (2_651_553_280, 2_651_553_280),
    "gpt3-6.7b": (6_658_404_352, 6_658_404_352),
    "gpt3-13b": (12_853_386_240, 12_853_386_240),
    "gpt3-175b": (174_604_259_328, 174_604_259_328),
    "rnn-tiny": (743_424, 743_424),
    "rnn-mini": (1_945_600, 1_945_600),
    "sutskever": (144_064_000, 144_064_000),
    "rnn-attention-tiny": (792_576, 792_576),
    "rnn-attention-mini": (2_142_208, 2_142_208),
    "bahdanau": (47_690_040, 47_690_040),
    "luong": (117_064_000, 117_064_000),
    "luong-feeding": (121_064_000, 121_064_000),
    "transformer-tiny": (1_434_624, 1_434_624),
    "transformer-mini": (4_704_256, 4_704_256),
    "transformer-base": (63_045_632, 63_045_632),
    "transformer-big": (214_171_648, 214_171_648),
    "caption-tiny": (878_657, 878_657),
    "caption-mini": (4_208_129, 4_208_129),
    "caption-base": (10_458_557, 10_458_557),
    "visualbert-tiny": (4_728_576, 4_776_124),
    "visualbert-mini": (11_832_832, 11_930_172),
    "visualbert-base": (111_450_624, 112_074_812),
    "vilbert-tiny": (5_606_784, 5_687_612),
    "vilbert-mini": (15_457_024, 15_686_460),
    "vilbert-base": (235_705_856, 239_023_229),
    "transformer-xl-tiny": (1_452_544, 1_460_544),
    "transformer-xl-mini": (5_465_600, 5_473_600),
    "transformer-xl-enwik8": (41_055_232, 41_055_436),
    "transformer-xl-enwik8-large": (277_231_616, 277_231_820),
    "transformer-xl-text8": (40_964_608, 40_964_635),
    "transformer-xl-text8-large": (277_050_368, 277_050_395),
    "transformer-xl-wt103": (150_838_570, 151_107_538),
    "transformer-xl-wt103-large": (283_851_120, 285_170_506),
    "transformer-xl-lm1b": (355_622_896, 357_812_082),
    "char-transformer-tiny": (462_080, 593_152),
    "char-transformer-mini": (3_355_648, 3_879_936),
    "char-transformer-12l": (41_105_408, 44_251_136),
    "char-transformer-64l": (218_660_864, 235_438_080),
    "gpt1-lstm-mini": (22_825_984, 22_825_984),
    "gpt1-lstm": (116_469_760, 116_469_760),
    "lstm-tiny": (1_288_192, 1_288_192),
    "lstm-mini": (8_298_496, 8_298_496),
    "lstm-medium": (13_270_400, 13_270_400),
    "lstm-large": (51_024_000, 51_024_000),
    "elmo-tiny": (344_312, 1_644_312),
    "elmo-mini": (2_530_976, 5_110_976),
    "elmo-original": (93_600_848, 500_651_471),  # the softmax has 407,050,623
    "xlnet-tiny": (4_525_696, 4_557_696),
    "xlnet-mini": (11_614_464, 11_646_464),
    "xlnet-base": (116_718_336, 116_750_336),
    "xlnet-large": (360_268_800, 360_300_800),
}
WITH_POOLER = {"roberta-base": 124_645_632, "roberta-large": 355_359_744}
WEIGHTS = {"replaced_token": 50.0, "forward_lm": 0.5, "backward_lm": 0.5}
SHAPES = {
    "bert-tiny": (2, 128, 2, 512),
    "bert-mini": (4, 256, 4, 1024),
    "bert-small": (4, 512, 8, 2048),
    "bert-medium": (8, 512, 8, 2048),
    "bert-base": (12, 768, 12, 3072),
    "bert-large": (24, 1024, 16, 4096),
    "roberta-tiny": (2, 128, 2, 512),
    "roberta-mini": (4, 256, 4, 1024),
    "roberta-base": (12, 768, 12, 3072),
    "roberta-large": (24, 1024, 16, 4096),
    "albert-base": (12, 768, 12, 3072),
    "albert-large": (24, 1024, 16, 4096),
    "albert-xlarge": (24, 2048, 16, 8192),
    "albert-xxlarge": (12, 4096, 64, 16_384),
}


def closed_form(recipe, vocabulary: int) -> tuple[int, int]:
    shape = recipe.architecture
    layers, width, inner = shape.layers, shape.width, shape.inner
    block = 4 * (width**2 + width) + 2 * width + (width * inner + inner) + (inner * width + width) + 2 * width
    encoder = (vocabulary + shape.max_length + 2) * width + 2 * width + layers * block + width**2 + width
    return encoder, encoder + (width**2 + width) + 2 * width + vocabulary + (2 * width + 2)


@pytest.mark.parametrize("name", CATALOGUE)
def test_parameters_are_exactly_the_papers(name):
    assert (encoder_parameters(find(name)), parameters(find(name))) == COUNTS[name]
    assert COUNTS[name][0] / 1000 < least_weights(find(name).architecture) <= COUNTS[name][0]


@pytest.mark.parametrize("name", ["bert-tiny", "bert-mini"])
@pytest.mark.parametrize("vocabulary", [100, 8000])
def test_parameters_follow_the_closed_form_for_any_vocabulary(name, vocabulary):
    recipe = find(name)
    found = encoder_parameters(recipe, vocabulary), parameters(recipe, vocabulary)
    assert found == closed_form(recipe, vocabulary)


@pytest.mark.parametrize("name", ["spanbert-mini", "spanbert-base", "spanbert-large"])
def test_the_span_boundary_head_is_two_layers_a_small_table_and_a_bias(name):
    """On top of BERT without its pooler and without the head for pairs: 2H + 200 to H, H to H, two norms, 15 places."""
    recipe = find(name)
    width, vocabulary = recipe.architecture.width, recipe.vocabulary
    encoder, masked = closed_form(recipe, vocabulary)
    pooler, pairs = width**2 + width, 2 * width + 2
    boundary = 15 * 200 + (2 * width + 200) * width + width + 2 * width + width**2 + width + 2 * width + vocabulary
    assert encoder_parameters(recipe) == encoder - pooler
    assert parameters(recipe) == masked - pooler - pairs + boundary


@pytest.mark.parametrize("name", ["albert-tiny", "albert-mini", "albert-base"])
@pytest.mark.parametrize("vocabulary", [100, 8000])
def test_alberts_parameters_follow_the_closed_form_for_any_vocabulary(name, vocabulary):
    shape = find(name).architecture
    narrow, width, inner = shape.embedding, shape.width, shape.inner
    block = 4 * (width**2 + width) + 2 * width + (width * inner + inner) + (inner * width + width) + 2 * width
    embedding = (vocabulary + 512 + 2) * narrow + 2 * narrow + (narrow * width + width)
    encoder = embedding + block + width**2 + width
    heads = (width * narrow + narrow) + 2 * narrow + vocabulary + (2 * width + 2)
    assert encoder_parameters(find(name), vocabulary) == encoder
    assert parameters(find(name), vocabulary) == encoder + heads


def block_of(width: int, inner: int) -> int:
    return 4 * (width**2 + width) + 2 * width + (width * inner + inner) + (inner * width + width) + 2 * width


def test_visualbert_adds_a_projection_and_two_tables_to_bert():
    """2,048 features to 768, one segment table of 2 and one position table of 512 rows."""
    assert closed_form(find("bert-base"), 30_522) == (109_482_240, 110_106_428)
    added = 2048 * 768 + 768 + (2 + 512) * 768
    assert encoder_parameters(find("visualbert-base")) == 109_482_240 + added == 111_450_624
    assert parameters(find("visualbert-base")) == 110_106_428 + added == 112_074_812  # the match head is that of NSP


@pytest.mark.parametrize("vocabulary", [100, 30_522])
def test_vilberts_parameters_follow_the_closed_form(vocabulary):
    """A BERT without its pooler, six layers of regions, six co-attention blocks, two poolers, three heads."""
    text, visual, joint, inner, features, classes = 768, 1024, 1024, 3072, 2048, 1601
    bert = (vocabulary + 512 + 2) * text + 2 * text + 12 * block_of(text, inner)
    regions = (features * visual + visual) + (5 * visual + visual) + 2 * visual + 6 * block_of(visual, 1024)

    def half(width: int, other: int, inside: int) -> int:
        """Queries of one stream, keys and values of the other, back to the width; norm, feed-forward, norm."""
        attention = (width * joint + joint) + 2 * (other * joint + joint) + (joint * width + width)
        return attention + 2 * width + (width * inside + inside) + (inside * width + width) + 2 * width

    blocks = 6 * (half(text, visual, inner) + half(visual, text, 1024))
    poolers = (text * joint + joint) + (visual * joint + joint)
    words = text**2 + text + 2 * text + vocabulary
    masked = visual**2 + visual + 2 * visual + (visual * classes + classes)
    found = encoder_parameters(find("vilbert-base"), vocabulary), parameters(find("vilbert-base"), vocabulary)
    assert found[0] == bert + regions + blocks + poolers
    assert found[1] == found[0] + words + masked + (2 * joint + 2)


@pytest.mark.parametrize("name", ["xlnet-tiny", "xlnet-mini", "xlnet-base"])
@pytest.mark.parametrize("vocabulary", [100, 8000])
def test_xlnets_parameters_follow_the_closed_form_for_any_vocabulary(name, vocabulary):
    shape = find(name).architecture
    width, inner = shape.width, shape.inner
    attention = 5 * width**2 + 3 * width + 2 * width + 2 * width  # five matrices; u, v, b; two segments; norm
    block = attention + (width * inner + inner) + (inner * width + width) + 2 * width
    encoder = vocabulary * width + width + shape.layers * block
    assert encoder_parameters(find(name), vocabulary) == encoder
    assert parameters(find(name), vocabulary) == encoder + vocabulary


def test_xlnet_large_keeps_the_papers_settings():
    recipe = find("xlnet-large")
    schedule, (arrangement, orders), shape = recipe.schedule, recipe.corruption, recipe.architecture
    assert not recipe.notes
    assert (schedule.steps, schedule.batch, schedule.learning_rate, recipe.stages) == (
        500_000,
        8192,
        4e-4,
        (Stage(length=512),),
    )
    assert schedule.warmup * schedule.steps == 40_000
    assert (schedule.optimizer.epsilon, schedule.optimizer.decay) == (1e-6, 0.01)
    assert (shape.memory, shape.dropout, shape.attention_dropout) == (384, 0.1, 0.1)
    assert arrangement.reuse == orders.reuse == shape.reuse == 0.5
    assert arrangement.backward and (orders.max_length, orders.context) == (5, 6)
    assert int(512 * orders.rate) == 85


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_the_papers(name):
    shape = find(name).architecture
    assert (shape.layers, shape.width, shape.heads, shape.inner) == SHAPES[name]
    assert (shape.max_length, shape.segments) == (512, 1 if name.startswith("roberta") else 2)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_recipe_bears_its_name_and_survives_json(name):
    recipe = find(name)
    assert recipe.name == name
    assert recipe_from_json(to_json(recipe)) == recipe


@pytest.mark.parametrize("name", ["bert-base", "bert-large", "bert-base-cased", "bert-base-chinese"])
def test_base_and_large_keep_the_papers_settings(name):
    recipe = find(name)
    schedule, (_, masking) = recipe.schedule, recipe.corruption
    assert not recipe.notes
    assert (schedule.steps, schedule.batch, schedule.learning_rate, schedule.warmup) == (1_000_000, 256, 1e-4, 0.01)
    assert recipe.stages == (Stage(until=0.9, length=128), Stage(length=512))
    assert (masking.rate, masking.mask_share, masking.random_share, masking.static_masks) == (0.15, 0.8, 0.1, 10)
    assert recipe.architecture.dropout == recipe.architecture.attention_dropout == 0.1


@pytest.mark.parametrize(
    ("name", "rate", "warmup_steps"), [("roberta-base", 6e-4, 24e3), ("roberta-large", 4e-4, 30e3)]
)
def test_roberta_keeps_the_papers_settings(name, rate, warmup_steps):
    recipe = find(name)
    schedule, optimizer, shape = recipe.schedule, recipe.schedule.optimizer, recipe.architecture
    assert not recipe.notes
    assert (schedule.steps, schedule.batch, schedule.learning_rate, schedule.clip) == (500_000, 8192, rate, 0.0)
    assert schedule.warmup * schedule.steps == pytest.approx(warmup_steps)
    assert recipe.stages == (Stage(length=512),)
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.decay) == (0.9, 0.98, 1e-6, 0.01)
    assert (shape.first, shape.activation, shape.epsilon, shape.dropout) == (2, "gelu", 1e-5, 0.1)
    assert [type(objective).__name__ for objective in recipe.objectives] == ["MaskedLM"]
    assert type(recipe.corruption[0]).__name__ == "FullSentences"


@pytest.mark.parametrize("name", WITH_POOLER)
def test_with_a_pooler_the_parameters_are_those_of_the_published_encoder(name):
    recipe = find(name)
    assert (
        encoder_parameters(replace(recipe, architecture=replace(recipe.architecture, pooler=True)))
        == (WITH_POOLER[name])
    )


@pytest.mark.parametrize("name", ["albert-base", "albert-large", "albert-xlarge", "albert-xxlarge"])
def test_alberts_keep_the_papers_settings(name):
    recipe = find(name)
    schedule, (_, masking) = recipe.schedule, recipe.corruption
    assert not recipe.notes
    assert (schedule.steps, schedule.batch, schedule.learning_rate) == (125_000, 4096, 0.00176)
    assert schedule.warmup * schedule.steps == 3125
    assert (type(schedule.optimizer).__name__, schedule.optimizer.decay, schedule.optimizer.epsilon, schedule.clip) == (
        "Lamb", 0.01, 1e-6, 1.0,
    )  # fmt: skip
    assert recipe.stages == (Stage(length=512),)
    assert (masking.rate, masking.mask_share, masking.random_share, masking.static_masks) == (0.15, 0.8, 0.1, 40)
    assert (recipe.architecture.embedding, recipe.architecture.sharing) == (128, "all")
    assert recipe.architecture.dropout == recipe.architecture.attention_dropout == 0.0
    assert [objective.name for objective in recipe.objectives] == ["masked_lm", "sentence_order"]


LEAVE_MORE = ("electra-tiny-adversarial", "electra-tiny-weighted")  # than a size for minutes does
FOR_MINUTES = [name for name, make in CATALOGUE.items() if make().for_minutes and name not in LEAVE_MORE]
PAPERS = {  # the recipe of a paper, by how names begin; the longest that fits
    "bert": "bert-base", "bert-wwm": "bert-wwm-base", "spanbert": "spanbert-base", "ernie": "ernie-1.0",
    "ernie2": "ernie2-base", "distilbert": "distilbert-base",
    "roberta": "roberta-base", "albert": "albert-base", "electra": "electra-base", "gpt1": "gpt1",
    "gpt1-lstm": "gpt1-lstm", "gpt2": "gpt2-small", "transformer": "transformer-base",
    "gpt3": "gpt3-125m", "transformer-xl": "transformer-xl-enwik8",
    "char-transformer": "char-transformer-12l", "lstm": "lstm-medium", "xlnet": "xlnet-large",
    "caption": "caption-base", "visualbert": "visualbert-base", "vilbert": "vilbert-base",
    "elmo": "elmo-original",
    "rnn": "sutskever", "rnn-attention": "luong",
}  # fmt: skip
POINTS = {  # settings, by how they end or begin, and what a note calls them
    r"architecture\.(layers|heads|width|inner|embedding|generator|cell|filters|highways)": "size",
    r"architecture\.(attention_)?dropout": "dropout",
    r"architecture\.(cell|features|convolutions)": "size",
    r"architecture\.(image_size|patch_size)": "image size",
    r"architecture\.(visual_\w+|joint_\w+)": "size",
    r"architecture\.activation": "activation",
    r"architecture\.memory": "memory",
    r"architecture\.restart_share": "restarted states",
    r"architecture\.bidirectional": "encoder directions",
    r"architecture\.band": "bands",
    r"architecture\.max_length|stages\..*": "length",
    r"streams\..*\.arrangement\.captions": "captions per row",
    r"objectives\.MaskedRegions\.detector_classes": "targets of masked regions",
    r"objectives\.DoublyStochasticAttention\..*": "objectives",
    r"architecture\.(local_heads|initialiser)": "initial weights",
    r"architecture\.initial_range|initialisation\..*|objectives\..*corpus_vocabulary": "initial weights",
    r"streams\..*\.maskings\.\w*Masking\..*": "masking",
    r"streams\..*\.TokenDocument\.frequent": "token–document labels",
    r"streams\..*\.PermutedSpans\.rate": "share of predicted tokens",
    r"objectives\.(Forward|Backward)LM\.weight": "loss weights",
    r"schedule\.batch": "batch",
    r"schedule\.clip": "clipping",
    r"schedule\.optimizer\..*": "optimizer",
    r"schedule\.learning_rate": "learning rate",
    r"schedule\.shape": "schedule",
    r"schedule\.warmup": "warm-up",
    r"tokenizer\..*|vocabulary|objectives\.ForwardLM\.(words|samples)": "vocabulary",
    r"name|notes|for_minutes|paper|summary|schedule\.steps": "",
}


def flat(part, name: str = "") -> dict[str, object]:
    """All settings of a recipe by their full names, kinds among them."""
    if is_dataclass(part):
        named = {field.name: getattr(part, field.name) for field in fields(part)}
        settings = {f"{name}.kind": type(part).__name__} if name else {}
    elif isinstance(part, tuple) and part and is_dataclass(part[0]):
        named = {member.name if isinstance(member, DataStream) else type(member).__name__: member for member in part}
        settings = {}
    else:
        return {name: part}
    for inner, value in named.items():
        settings |= flat(value, f"{name}.{inner}".lstrip("."))
    return settings


@pytest.mark.parametrize("name", FOR_MINUTES)
def test_sizes_for_minutes_say_in_what_they_leave_the_paper(name):
    paper = find(PAPERS[max((begin for begin in PAPERS if name.startswith(begin)), key=len)])
    own, theirs = flat(find(name)), flat(paper)
    changed = {setting for setting in own.keys() | theirs.keys() if own.get(setting) != theirs.get(setting)}
    points = {point for setting in changed for pattern, point in POINTS.items() if re.fullmatch(pattern, setting)}
    assert all(any(re.fullmatch(pattern, setting) for pattern in POINTS) for setting in changed)
    if paper.name == "bert-base":
        points -= {"size"}  # published too (Turc et al., 2019)
    found = find(name).notes.removesuffix(" are set for runs of minutes on a small machine; all else is the paper's.")
    assert set(re.split(", | and ", found.lower())) == points - {""}


def test_every_tiny_and_mini_recipe_is_for_minutes():
    assert {name for name in CATALOGUE if name.endswith(("-tiny", "-mini"))} <= {*FOR_MINUTES}
    for name in LEAVE_MORE:
        assert find(name).for_minutes
        assert find(name).notes.startswith(find("electra-tiny").notes + " The ")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_description_that_is_shown_is_a_whole_sentence(name, plm):
    """A docstring's first line is shown, so no sentence may continue after it."""
    recipe = find(name)
    shown = plm("recipes", name).out
    assert recipe.summary in shown
    for text in (recipe.summary, *([recipe.notes] if recipe.notes else [])):
        assert text.endswith("."), text
    used = TaskSettings().settled(recipe.architecture, recipe.tuning).optimizer  # narrow networks have another one
    for choice in described(replace(recipe, tuning=replace(recipe.tuning, optimizer=used))):
        first, *rest = (type(choice).__doc__ or "").strip().splitlines()
        assert first.endswith("."), first
        assert not rest or not rest[0].strip(), f"{first} continues in the next line"
        assert first in shown


def described(part):
    """All choices of a recipe, and the choices within them."""
    for field in fields(part):
        value = getattr(part, field.name)
        for choice in value if isinstance(value, tuple) else (value,):
            if is_dataclass(choice):
                yield from () if isinstance(choice, DataStream | Stage) else (choice,)  # of these, what they hold
                yield from described(choice)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_summary_says_no_length_of_rows_that_this_size_does_not_have(name):
    recipe = find(name)
    said = {int(number) for number in re.findall(r"rows of (\d+)", recipe.summary)}
    assert said <= {stage.length for stage in recipe.stages}


def test_an_unknown_recipe_is_refused_with_the_nearest_name():
    with pytest.raises(RecipeError, match=r"'bert-bse'\. Did you mean 'bert-base'"):
        find("bert-bse")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_says_its_name_what_it_reads_and_what_it_is_for(objective):
    assert objective.name.isidentifier()
    assert objective.reads <= FIELDS
    assert objective().weight == WEIGHTS.get(objective.name, 1.0)
    assert objective.__doc__.endswith(").")  # one sentence and its source


def test_every_objective_is_in_some_recipe_or_named_as_a_choice_and_is_shown_with_it(plm):
    used = {type(objective) for make in CATALOGUE.values() for objective in make().objectives}
    assert used <= {*OBJECTIVES}
    shown = plm("recipes", "bert-base").out
    for objective in OBJECTIVES:
        assert objective.__name__ in shown  # as a choice
    for objective in used:
        name = next(name for name, make in CATALOGUE.items() if objective in map(type, make().objectives))
        assert f"objectives: {objective.__name__}: {objective.__doc__}" in plm("recipes", name).out


def test_every_position_that_a_writer_can_read_is_trained():
    """A table of positions longer than the rows would be read where nothing was trained."""
    writers = [make() for make in CATALOGUE.values()]
    bounded = [
        recipe for recipe in writers if recipe.architecture.bounded and recipe.architecture.generates == "causal"
    ]
    assert {"gpt1-mini", "gpt2-xl", "gpt3-tiny"} <= {recipe.name for recipe in bounded}
    for recipe in bounded:
        assert recipe.architecture.max_length == recipe.max_length, recipe.name
