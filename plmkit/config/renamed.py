"""Names that settings had in older versions: `--set` and the settings of old runs may still use them."""

RENAMED = {  # old → new
    "corruption.masked": "corruption.mask_share",
    "corruption.swapped": "corruption.random_share",
    "corruption.most": "corruption.max_masked",
    "corruption.copies": "corruption.static_masks",
}


def current(name: str) -> str:
    """The name that a setting has now; the choice that has it may be named, as in corruption.token_masking.copies."""
    axis, *path = name.split(".")
    if name not in RENAMED and len(path) == 2 and f"{axis}.{path[1]}" in RENAMED:
        return f"{axis}.{path[0]}.{RENAMED[f'{axis}.{path[1]}'].removeprefix(f'{axis}.')}"
    return RENAMED.get(name, name)
