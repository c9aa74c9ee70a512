"""Ranges of characters: the one place that decides what is an ideograph."""

IDEOGRAPHS = (  # Han characters of Unicode 15: extension A, the basic block, compatibility, extensions B to H
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)
HAN = "".join(f"{chr(first)}-{chr(last)}" for first, last in IDEOGRAPHS)  # inside the brackets of a regular expression
KANA = "\u3040-\u30ff"
HANGUL = "\uac00-\ud7af"
WIDE = f"{HAN}\u3000-\u30ff\uff00-\uff60“”‘’…—"  # no space is written before or after these


def is_ideograph(code: int) -> bool:
    """Is the code point a Han character?"""
    return any(first <= code <= last for first, last in IDEOGRAPHS)
