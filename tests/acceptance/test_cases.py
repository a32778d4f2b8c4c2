"""The list of acceptance cases says what is there."""

import csv
import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "cases.toml").read_text())


def test_every_case_that_is_listed_as_covered_has_its_test() -> None:
    for case, place in CASES["covered"].items():
        file, name = place.split("::")
        assert re.search(rf"^def {name}\(", (HERE / file).read_text(), re.MULTILINE), place
        assert case.lower() in name.split("_")


def test_no_case_is_both_covered_and_left() -> None:
    assert not set(CASES["covered"]) & set(CASES["left"])


def test_every_case_of_these_groups_is_listed(shared: Path) -> None:
    with (shared / "cases" / "cases.csv").open() as file:
        known = {row["id"] for row in csv.DictReader(file) if row["group"][0] in "ABCDEFGHIJKL"}
    assert known == set(CASES["covered"]) | set(CASES["left"])
