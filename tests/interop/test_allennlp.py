"""AllenNLP's files for ELMo: computed as TensorFlow does from the arrays in them, and written again bit by bit."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import plmkit
from plmkit.data.batch import Batch, Side
from plmkit.data.spelling import BEGIN_SENTENCE, END_SENTENCE, spell, spell_mark
from plmkit.interop.allennlp import read_allennlp

OPTIONS = {
    "lstm": {
        "cell_clip": 1, "use_skip_connections": True, "n_layers": 2, "proj_clip": 0.5, "projection_dim": 4, "dim": 6
    },
    "char_cnn": {
        "embedding": {"dim": 3}, "filters": [[1, 2], [3, 5]], "n_highway": 2, "n_characters": 262,
        "max_characters_per_token": 50, "activation": "relu",
    },
}  # fmt: skip
SHAPES = {
    "char_embed": (261, 3), "CNN_proj/W_proj": (7, 4), "CNN_proj/b_proj": (4,),
    "CNN/W_cnn_0": (1, 1, 3, 2), "CNN/b_cnn_0": (2,), "CNN/W_cnn_1": (1, 3, 3, 5), "CNN/b_cnn_1": (5,),
    **{f"CNN_high_{n}/W_{kind}": (7, 7) for n in (0, 1) for kind in ("carry", "transform")},
    **{f"CNN_high_{n}/b_{kind}": (7,) for n in (0, 1) for kind in ("carry", "transform")},
    **{
        f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}": shape
        for way in (0, 1) for layer in (0, 1)
        for name, shape in {"W_0": (8, 24), "B": (24,), "W_P_0": (6, 4)}.items()
    },
}  # fmt: skip


def write_folder(folder: Path, options: dict = OPTIONS, shapes: dict = SHAPES) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    (folder / "elmo_tiny_options.json").write_text(json.dumps(options))
    with h5py.File(folder / "elmo_tiny_weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            file[name] = rng.normal(size=shape).astype(np.float32)
    return folder


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_folder(tmp_path / "elmo")


def sigmoid(numbers):
    return 1 / (1 + np.exp(-numbers))


def word_vector(file, characters: np.ndarray) -> np.ndarray:
    numbers = file["char_embed"][characters]  # (50, 3)
    found = []
    for number, (size, _) in enumerate(OPTIONS["char_cnn"]["filters"]):
        windows = np.stack([numbers[at : at + size].ravel() for at in range(51 - size)])
        filters = file[f"CNN/W_cnn_{number}"].reshape(windows.shape[1], -1)
        found.append(np.maximum((windows @ filters + file[f"CNN/b_cnn_{number}"]).max(0), 0))
    hidden = np.concatenate(found)
    for number in range(2):
        high = f"CNN_high_{number}/"
        gate = sigmoid(hidden @ file[high + "W_carry"] + file[high + "b_carry"])
        new = np.maximum(hidden @ file[high + "W_transform"] + file[high + "b_transform"], 0)
        hidden = gate * new + (1 - gate) * hidden
    return hidden @ file["CNN_proj/W_proj"] + file["CNN_proj/b_proj"]


def read_row(file, way: int, words: np.ndarray, states: list) -> np.ndarray:
    """The top layer; `states` are those to begin from, and become those at the end."""
    outputs = []
    for word in words:
        inputs = word
        for layer in range(2):
            cell = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            output, kept = states[layer]
            joint = np.concatenate([inputs, output]) @ file[cell + "W_0"] + file[cell + "B"]
            enter, candidate, forget, show = np.split(joint, 4)
            kept = np.clip(sigmoid(forget + 1) * kept + sigmoid(enter) * np.tanh(candidate), -1, 1)
            output = np.clip((sigmoid(show) * np.tanh(kept)) @ file[cell + "W_P_0"], -0.5, 0.5)
            states[layer] = output, kept
            inputs = output + inputs if layer else output
        outputs.append(inputs)
    return np.stack(outputs)


def spelled(text: str) -> list[np.ndarray]:
    return [spell_mark(BEGIN_SENTENCE), *spell(text.split()), spell_mark(END_SENTENCE)]


def test_states_are_those_of_the_arrays_and_continue_from_batch_to_batch(folder):
    architecture, tokenizer, weights = read_allennlp(folder)
    model = architecture.build(tokenizer.vocabulary).double().eval()
    model.load_state_dict({name.removeprefix("model."): weight for name, weight in weights.items()})
    with h5py.File(folder / "elmo_tiny_weights.hdf5") as opened:
        arrays: dict = {}
        opened.visititems(
            lambda name, part: arrays.update({name: part[()].astype(np.float64)} if hasattr(part, "shape") else {})
        )
    fresh = [(np.zeros(4), np.zeros(6))] * 2
    states, memory = [[[*fresh], [*fresh]] for _ in range(2)], None
    for texts in (("The zyx barked", "Yes"), ("No", "A 狗 ran off again")):
        rows = [spelled(text) for text in texts]
        length = max(map(len, rows))
        characters = np.full((2, length, 50), 260)
        visible = np.arange(length) < np.array([[len(row)] for row in rows])
        characters[visible] = np.concatenate(rows)
        side = Side(
            tokens=torch.zeros(2, length, dtype=torch.long), visible=torch.tensor(visible),
            characters=torch.tensor(characters),
        )  # fmt: skip
        with torch.no_grad():
            found = model(Batch(source=side, memory=memory))
        memory = found.memory
        for number, row in enumerate(rows):
            words = np.stack([word_vector(arrays, word) for word in row])
            onward = read_row(arrays, 0, words, states[number][0])
            backward = read_row(arrays, 1, words[::-1], states[number][1])[::-1]
            wanted = np.concatenate([onward, backward], axis=1)
            np.testing.assert_allclose(found.hidden[number, : len(row)].numpy(), wanted, atol=1e-9)


def test_what_is_read_and_written_is_the_same_bit_by_bit(folder, tmp_path, plm):
    ran = plm("export", folder, tmp_path / "again", "--format", "allennlp", "--json")
    assert ran.code == 0, ran.err
    assert ran.json == {"folder": str(tmp_path / "again"), "format": "allennlp", "checked": True}
    assert json.loads((tmp_path / "again" / "options.json").read_text()) == OPTIONS
    with h5py.File(folder / "elmo_tiny_weights.hdf5") as one, h5py.File(tmp_path / "again" / "weights.hdf5") as other:
        for name, shape in SHAPES.items():
            assert other[name].shape == shape
            assert np.array_equal(one[name], other[name]), name


def test_a_folder_of_allennlp_embeds_words_that_no_vocabulary_has(folder):
    model = plmkit.load(folder, device="cpu")
    one, other, same = model.embed(["the dog barks", "the cat barks", "the dog barks"], level="token")
    assert one.shape == (3, 8)
    assert np.allclose(one, same)
    assert not np.allclose(one[1], other[1]) and not np.allclose(one[0], other[0])


def test_unknown_words_are_named_as_they_are_written_with_their_places(folder, plm):
    reported = plm("embed", folder, "Grr, 狗 barked", "--level", "token", "--layers", "mean", "--json").json
    assert reported["names"] == [["Grr", ",", "狗", "barked"]]
    assert reported["offsets"] == [[[0, 3], [3, 4], [5, 6], [7, 13]]]
    assert np.shape(reported["vectors"]) == (1, 4, 8)


def test_a_vocabulary_next_to_the_weights_is_read(folder):
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")
    assert plmkit.load(folder, device="cpu").tokenizer.encode("the cat") == [3, 2]


def test_a_run_is_exported_and_embeds_the_same(plm, mixed_corpus, tmp_path):
    out, exported = tmp_path / "run", tmp_path / "exported"
    tiny = ("architecture.width=16", "architecture.cell=8", "tokenizer.size=400", "stages=[[1.0, 16]]", "run.threads=1")
    settings = [part for one in tiny for part in ("--set", one)]
    assert plm("pretrain", "elmo-tiny", mixed_corpus, "--steps", 2, "--out", out, *settings).code == 0
    assert plm("export", out, exported, "--format", "allennlp").code == 0
    ours, theirs = (
        plmkit.load(path, device="cpu").embed("the qwert sees 我的狗.", level="token") for path in (out, exported)
    )
    assert np.array_equal(ours, theirs)
    refused = plm("export", out, tmp_path / "hub")
    assert (refused.code, "transformers has no ELMo" in refused.err, "--format allennlp" in refused.err) == (
        2,
        True,
        True,
    )


def test_another_network_has_no_files_for_allennlp(plm, pretrained, tmp_path):
    ran = plm("export", pretrained, tmp_path / "out", "--format", "allennlp")
    assert (ran.code, (tmp_path / "out").exists()) == (2, False)
    assert "has the architecture Encoder, but AllenNLP's format is for Elmo" in ran.err


@pytest.mark.parametrize("options", [(), ("--format", "allennlp")])
def test_a_folder_that_every_command_reads_needs_no_import(options, folder, plm, tmp_path):
    ran = plm("import", folder, "--out", tmp_path / "again", *options)
    assert (ran.code, "every command can read it without an import" in ran.err) == (2, True)
    assert not (tmp_path / "again").exists()


def changed(part: str, **values) -> dict:
    return {**OPTIONS, part: {**OPTIONS[part], **values}}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (changed("lstm", dim=7), "'RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0' has the shape (8, 24), but the options"),
        (changed("char_cnn", n_highway=3), "has no weight 'CNN_high_2/W_transform'"),
        (changed("lstm", n_layers="two"), "does not describe an ELMo: 'two' is not a whole number"),
        (changed("char_cnn", activation="swish"), "Unknown architecture.activation 'swish'"),
        (changed("char_cnn", max_characters_per_token=30), "max_characters_per_token=30"),
        (changed("char_cnn", n_characters=300), "n_characters=300"),
        (changed("char_cnn", filters=3), "does not describe an ELMo"),
        ({"lstm": OPTIONS["lstm"]}, "has no 'char_cnn', so it does not describe an ELMo"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_the_weights_are_refused_in_a_sentence(options, found, tmp_path, plm):
    ran = plm("embed", write_folder(tmp_path / "elmo", options), "a text")
    assert (ran.code, found in ran.err, "Traceback" in ran.err) == (2, True, False), ran.err
    assert len(ran.err.strip().splitlines()) <= 3


def test_a_file_that_is_no_hdf5_and_two_files_of_weights_are_refused(folder, plm):
    (folder / "more_weights.hdf5").write_bytes(b"no")
    ran = plm("embed", folder, "a text")
    assert (ran.code, "has several files *weights.hdf5" in ran.err) == (2, True)
    (folder / "elmo_tiny_weights.hdf5").unlink()
    ran = plm("embed", folder, "a text")
    assert (ran.code, "more_weights.hdf5 cannot be read as HDF5" in ran.err) == (2, True)
    (folder / "more_weights.hdf5").unlink()
    with h5py.File(folder / "weights.hdf5", "w") as file:
        file["char_embed"] = "text"
    ran = plm("embed", folder, "a text")
    assert (ran.code, "the weight 'char_embed' has the shape (), but the options ask for (261, 3)" in ran.err) == (
        2,
        True,
    )
