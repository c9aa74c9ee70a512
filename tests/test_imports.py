"""Who may know whom: axes never import each other, workers never import torch, nothing loaded can run."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import plmkit

ROOT = Path(plmkit.__file__).parent
MODULES = {
    ".".join(("plmkit", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
AXES = ("tokenizers", "corruption", "architectures", "objectives", "schedules")
WITH_TORCH = {"plmkit.data.batch", "plmkit.data.samples"}


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports_of(module: str) -> set[str]:
    """Everything a module imports, wherever in it; `from a import b` counts as a and as a.b."""
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_every_module_is_looked_at():
    assert {"plmkit", "plmkit.cli", "plmkit.training.loop", "plmkit.data.reading.blocks"} <= MODULES.keys()
    assert {f"plmkit.{axis}" for axis in AXES} <= MODULES.keys()
    assert "plmkit.errors" in imports_of("plmkit.training.run_folder")
    assert "torch" in imports_of("plmkit.training.loop")


# rooms that others are built on, and rooms that are built on them
FOUNDATIONS = (
    "data",
    "initialisation",
    "kernels",
    "language",
    "layers",
    "network",
    "segmentation",
    "storage",
    "terminal",
)
UPPER = (
    "api", "catalogue", "cli", "compare", "demo", "generation", "insight", "interop", "preparation", "prompting",
    "recipes", "tasks",
)  # fmt: skip
BOTH_WAYS = {  # rooms that import each other, and why
    ("compression", "inference"): "a compressed folder is loaded like any model, and made from one that was loaded",
    ("config", "recipe"): "a recipe is read from JSON by config, and its settings are checked there",
    ("corruption", "data"): "samples run the steps of a corruption, which read the token store",
    ("data", "segmentation"): "the token store keeps the units that a segmenter found in a text",
    ("data", "storage"): "the token store is written atomically, and verified like any folder",
    ("data", "tokenizers"): "the token store is filled by a tokenizer, whose special tokens are the vocabulary's",
    ("generation", "inference"): "a model generates, and evaluation reads text by the same engine",
    ("generation", "tasks"): "both read tables of rows",
    (
        "inference",
        "insight",
    ): "a model shows what it attends to, and what it attends to in an image is read like a match",
    ("inference", "interop"): "a model is loaded from a folder of another library, and exported to one",
    ("inference", "storage"): "errors of writing name the folder of a model",
    ("inference", "tasks"): "a model that was fine-tuned predicts by its task",
    ("inference", "training"): "a run starts from the weights of a model, and a model is what a run saved",
    ("initialisation", "layers"): "a layer draws its initial weights, and statistics of the corpus go into some layers",
    ("kernels", "layers"): "a layer calls its kernel, which uses the layer's plain arithmetic",
    ("preparation", "training"): "a run is prepared from its corpus; the preview shows what is trained on",
    ("training", "vectors"): "word vectors are kept in a run folder, whose record has their settings",
    ("storage", "training"): "a run folder is verified by its record",
}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def edges() -> dict[tuple[str, str], set[str]]:
    """The rooms that import each other when they run, with the modules that do; hints for types do not count."""
    found: dict[tuple[str, str], set[str]] = {}
    for module in MODULES:
        for name in running_imports(tree_of(module)):
            if within(name, "plmkit") and room(name) and room(name) != room(module):
                found.setdefault((room(module), room(name)), set()).add(module)
    return found


def running_imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
        found |= running_imports(node)
    return found


def test_no_two_rooms_import_each_other_without_a_reason():
    found = edges()
    both = {pair for pair in found if pair[0] < pair[1] and pair[::-1] in found}
    surplus = {pair: (sorted(found[pair]), sorted(found[pair[::-1]])) for pair in both - BOTH_WAYS.keys()}
    assert not surplus


@pytest.mark.parametrize("foundation", FOUNDATIONS)
def test_foundations_do_not_know_what_is_built_on_them(foundation):
    met = {pair: modules for pair, modules in edges().items() if pair[0] == foundation and pair[1] in UPPER}
    assert not met


def test_nothing_but_the_program_imports_the_command_line():
    assert {importer for importer, imported in edges() if imported == "cli"} == {"__main__"}
    assert {importer for importer, imported in edges() if imported == "api"} == {"cli"}


@pytest.mark.parametrize("axis", AXES)
def test_axes_never_import_each_other(axis):
    for module in MODULES:
        if within(module, f"plmkit.{axis}"):
            others = [f"plmkit.{other}" for other in AXES if other != axis]
            met = [name for name in imports_of(module) for other in others if within(name, other)]
            assert not met, f"{module} imports {met}"


@pytest.mark.parametrize("axis", AXES)
def test_axes_do_not_know_who_uses_them(axis):
    above = [
        "training", "tasks", "recipes", "recipe", "fit", "cli", "config", "inference", "interop", "generation",
        "prompting", "preparation", "terminal", "demo",
    ]  # fmt: skip
    for module in MODULES:
        if within(module, f"plmkit.{axis}"):
            met = [name for name in imports_of(module) for other in above if within(name, f"plmkit.{other}")]
            assert not met, f"{module} imports {met}"


def test_data_and_tokenizers_do_without_torch():
    found = {
        module
        for module in MODULES
        if (within(module, "plmkit.data") or within(module, "plmkit.tokenizers"))
        and any(within(name, "torch") for name in imports_of(module))
    }
    assert found == WITH_TORCH


def test_a_worker_that_tokenizes_does_not_load_torch():
    code = "import sys, plmkit.data.shards; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("module", MODULES)
def test_no_module_loads_what_could_run(module):
    banned = ("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "torch.load")
    met = [name for name in imports_of(module) for other in banned if within(name, other)]
    assert not met, f"{module} imports {met}"
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "__import__", "np.fromfile"), f"{module}: {called}"
            if called == "torch.load":  # `plm import` reads pickles, and of them nothing but tensors
                assert (module, "weights_only=True" in ast.unparse(node)) == ("plmkit.interop.importing", True)
            if called in ("np.load", "numpy.load"):
                assert "allow_pickle=False" in ast.unparse(node), f"{module}: {ast.unparse(node)}"


def test_models_are_loaded_without_torchs_compiler():
    """It takes as long to load as torch itself, and only run.compile needs it."""
    code = "import sys, plmkit.inference.loading, plmkit.catalogue; print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
