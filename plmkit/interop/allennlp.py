"""ELMo as AllenNLP publishes it: options.json, and weights in HDF5 under the names of allenai/bilm-tf."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.elmo import Elmo
from plmkit.data.spelling import CHARACTER_IDS, WORD_LENGTH
from plmkit.data.vocabulary import unnamed
from plmkit.errors import CheckpointError, InputError, SettingError
from plmkit.language import tr
from plmkit.storage.files import put_text, read_json
from plmkit.tokenizers.counted import SENTENCE_MARKS, sentence_words
from plmkit.tokenizers.files import TOKENIZER_FILE
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer

OPTIONS, WEIGHTS, VOCABULARY = "options.json", "weights.hdf5", "vocab.txt"
GATES = (0, 3, 1, 2)  # input, forget, output, candidate → input, candidate, forget, output


def is_allennlp(folder: Path) -> bool:
    return any(folder.glob(f"*{OPTIONS}")) and any(folder.glob(f"*{WEIGHTS}"))


def only_file(folder: Path, ending: str) -> Path:
    """The file whose name ends like this; there may be one."""
    first, *others = sorted(folder.glob(f"*{ending}"))
    if others:
        raise InputError(
            tr(
                "{folder} has several files *{ending}: {first} and {second}. Keep those of one model.",
                folder=folder,
                ending=ending,
                first=first.name,
                second=others[0].name,
            )
        )
    return first


def read_allennlp(folder: Path) -> tuple[Elmo, Tokenizer, dict[str, Tensor]]:
    """The architecture, the tokenizer, and the weights under our names."""
    architecture = read_options(only_file(folder, OPTIONS))
    return architecture, read_words(folder), read_weights(only_file(folder, WEIGHTS), architecture)


def read_options(path: Path) -> Elmo:
    options = read_json(path)
    try:
        lstm, characters = options["lstm"], options["char_cnn"]
        if characters.get("max_characters_per_token", WORD_LENGTH) != WORD_LENGTH:
            raise ValueError(f"max_characters_per_token={characters['max_characters_per_token']}")
        if characters.get("n_characters", CHARACTER_IDS + 1) not in (CHARACTER_IDS, CHARACTER_IDS + 1):
            raise ValueError(f"n_characters={characters['n_characters']}")
        return Elmo(
            layers=whole(lstm["n_layers"]),
            width=2 * whole(lstm["projection_dim"]),
            cell=whole(lstm["dim"]),
            filters=tuple((whole(size), whole(count)) for size, count in characters["filters"]),
            characters=whole(characters["embedding"]["dim"]),
            highways=whole(characters.get("n_highway", 0)),
            activation=characters.get("activation", "relu"),
            cell_clip=float(lstm["cell_clip"]),
            output_clip=float(lstm["proj_clip"]),
            residual=bool(lstm.get("use_skip_connections", False)),
        )
    except KeyError as error:
        raise InputError(tr("{path} has no {key}, so it does not describe an ELMo.", path=path, key=error)) from error
    except (TypeError, ValueError, AttributeError, SettingError) as error:
        raise InputError(tr("{path} does not describe an ELMo: {error}", path=path, error=error)) from error


def whole(number: Any) -> int:
    if type(number) is not int:
        raise TypeError(f"{number!r} is not a whole number")
    return number


def read_words(folder: Path) -> Tokenizer:
    """The vocabulary of its targets, if the folder has it; inputs do not need one."""
    if (folder / TOKENIZER_FILE).is_file():
        return load_tokenizer(folder)
    path = folder / VOCABULARY
    words = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return sentence_words(dict.fromkeys([*SENTENCE_MARKS, *words]))


def read_weights(path: Path, architecture: Elmo) -> dict[str, Tensor]:
    """The weights of an HDF5 file, each of the shape that the options ask for."""
    import h5py

    with torch.device("meta"):
        empty = architecture.build(unnamed(0)).state_dict()
    wanted = {name: tuple(array.shape) for name, array in to_theirs(empty, architecture)}
    try:
        with h5py.File(path, "r") as file:
            found: dict[str, Tensor] = {}
            for name, shape in wanted.items():
                if not isinstance(dataset := file.get(name), h5py.Dataset):
                    raise CheckpointError(
                        tr("{path} has no weight '{name}'. It does not belong to its options.", path=path, name=name)
                    )
                if dataset.shape != shape:
                    raise CheckpointError(
                        tr(
                            "{path}: the weight '{name}' has the shape {found}, but the options ask for {wanted}. "
                            "The two files do not belong together.",
                            path=path,
                            name=name,
                            found=dataset.shape,
                            wanted=shape,
                        )
                    )
                found[name] = torch.from_numpy(dataset[()]).float()
    except (OSError, TypeError) as error:
        raise CheckpointError(
            tr("{path} cannot be read as HDF5: {error}. Copy it again.", path=path, error=error)
        ) from error
    return {f"model.{name}": weight for name, weight in to_ours(found, architecture)}


def write_allennlp(folder: Path, architecture: Elmo, tokenizer: Tokenizer, weights: dict[str, Tensor]) -> None:
    """The files that AllenNLP's `Elmo` reads, with the tokenizer beside them."""
    import h5py

    options = {
        "lstm": {
            "n_layers": architecture.layers,
            "projection_dim": architecture.width // 2,
            "dim": architecture.cell,
            "cell_clip": architecture.cell_clip,
            "proj_clip": architecture.output_clip,
            "use_skip_connections": architecture.residual,
        },
        "char_cnn": {
            "embedding": {"dim": architecture.characters},
            "filters": [list(pair) for pair in architecture.filters],
            "n_highway": architecture.highways,
            "n_characters": CHARACTER_IDS + 1,  # a row of zeros for masked positions is added when it is read
            "max_characters_per_token": WORD_LENGTH,
            "activation": architecture.activation,
        },
    }
    own = {name.removeprefix("model."): weight for name, weight in weights.items() if name.startswith("model.")}
    tokenizer.save(folder)
    put_text(folder / VOCABULARY, "".join(f"{token}\n" for token in tokenizer.vocabulary.tokens))
    put_text(folder / OPTIONS, json.dumps(options, indent=2) + "\n")
    with h5py.File(folder / WEIGHTS, "w") as file:
        for name, array in to_theirs(own, architecture):
            file[name] = array.contiguous().numpy()


def to_theirs(weights: dict[str, Tensor], architecture: Elmo) -> Iterator[tuple[str, Tensor]]:
    """Our weights, without `model.`, under their names: TensorFlow's matrices are transposed."""
    yield "char_embed", weights["embed.characters.weight"]
    for number in range(len(architecture.filters)):
        yield f"CNN/W_cnn_{number}", weights[f"embed.filters.{number}.weight"].permute(2, 1, 0)[None]
        yield f"CNN/b_cnn_{number}", weights[f"embed.filters.{number}.bias"]
    for number in range(architecture.highways):
        for part, what in enumerate(("transform", "carry")):
            yield f"CNN_high_{number}/W_{what}", weights[f"embed.highways.{number}.gates.weight"].chunk(2)[part].t()
            yield f"CNN_high_{number}/b_{what}", weights[f"embed.highways.{number}.gates.bias"].chunk(2)[part]
    yield "CNN_proj/W_proj", weights["embed.project.weight"].t()
    yield "CNN_proj/b_proj", weights["embed.project.bias"]
    for ours, theirs in cells_of(architecture):
        yield f"{theirs}W_0", reordered(torch.cat([weights[f"{ours}inputs"], weights[f"{ours}state"]], 1), GATES).t()
        yield f"{theirs}B", reordered(weights[f"{ours}bias"], GATES)
        yield f"{theirs}W_P_0", weights[f"{ours}project"].t()


def to_ours(arrays: dict[str, Tensor], architecture: Elmo) -> Iterator[tuple[str, Tensor]]:
    """The inverse of `to_theirs`."""
    yield "embed.characters.weight", arrays["char_embed"]
    for number in range(len(architecture.filters)):
        yield f"embed.filters.{number}.weight", arrays[f"CNN/W_cnn_{number}"][0].permute(2, 1, 0).contiguous()
        yield f"embed.filters.{number}.bias", arrays[f"CNN/b_cnn_{number}"]
    for number in range(architecture.highways):
        matrices, biases = (
            [arrays[f"CNN_high_{number}/{kind}_{what}"] for what in ("transform", "carry")] for kind in ("W", "b")
        )
        yield f"embed.highways.{number}.gates.weight", torch.cat([matrix.t() for matrix in matrices])
        yield f"embed.highways.{number}.gates.bias", torch.cat(biases)
    yield "embed.project.weight", arrays["CNN_proj/W_proj"].t().contiguous()
    yield "embed.project.bias", arrays["CNN_proj/b_proj"]
    back = [GATES.index(gate) for gate in range(4)]
    for ours, theirs in cells_of(architecture):
        inputs, state = reordered(arrays[f"{theirs}W_0"].t(), back).chunk(2, dim=1)
        yield f"{ours}inputs", inputs.contiguous()
        yield f"{ours}state", state.contiguous()
        yield f"{ours}bias", reordered(arrays[f"{theirs}B"], back)
        yield f"{ours}project", arrays[f"{theirs}W_P_0"].t().contiguous()


def cells_of(architecture: Elmo) -> Iterator[tuple[str, str]]:
    """How the names of an LSTM's weights begin, ours and theirs."""
    for way in range(2):
        for layer in range(architecture.layers):
            yield f"directions.{way}.layers.{layer}.", f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"


def reordered(gates: Tensor, order: tuple[int, ...] | list[int]) -> Tensor:
    """The four gates, stacked along the first dimension, in this order."""
    parts = gates.chunk(4)
    return torch.cat([parts[gate] for gate in order])
