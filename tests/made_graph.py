"""A made knowledge graph: countries with their capital, language and continent, and who borders whom."""

from pathlib import Path

COUNTRIES = [
    line.split()
    for line in """
china beijing chinese asia
japan tokyo japanese asia
nepal kathmandu nepali asia
france paris french europe
spain madrid spanish europe
italy rome italian europe
egypt cairo arabic africa
kenya nairobi swahili africa
ghana accra english africa
peru lima spanish america
chile santiago spanish america
canada ottawa english america
""".strip().splitlines()
]
HEADER = "head\trelation\ttail\n"


def triples() -> list[tuple[str, str, str]]:
    return [
        row
        for country, capital, language, continent in COUNTRIES
        for row in (
            (capital, "capital_of", country),
            (country, "speaks", language),
            (country, "lies_in", continent),
        )
    ]


def lines_of(rows: list[tuple[str, str, str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def write_triples(path: Path, rows: list[tuple[str, str, str]] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + lines_of(triples() if rows is None else rows), encoding="utf-8")
    return path
