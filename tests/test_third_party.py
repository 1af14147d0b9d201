# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""THIRD_PARTY.md lists exactly what the project needs, with the licences that packages state."""

import importlib.metadata
import re
from pathlib import Path

import tomllib

from mindspore_relay.generate.model_file import MODEL_REQUIREMENT

ROOT = Path(__file__).resolve().parent.parent
# Words of a package's metadata, by the first word of the licence in the table.
FAMILIES = {
    "Apache-2.0": "Apache",
    "BSD-3-Clause": "BSD",
    "MIT": "MIT",
    "MPL-2.0": "MPL-2.0|Mozilla",
    "PSF-based": "Python Software Foundation|PSF",
}


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def table():
    """Name -> licence, of all tables of the page."""
    text = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.-]+) \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    names = [name for name, _ in rows if name not in ("name", "---")]
    assert len(names) == len(set(names)), "a name is listed twice"
    return {name: licence for name, licence in rows if name not in ("name", "---")}


def requirements():
    with open(ROOT / "pyproject.toml", "rb") as file:
        content = tomllib.load(file)
    project = content["project"]
    lists = [content["build-system"]["requires"], project["dependencies"], [MODEL_REQUIREMENT]]
    lists += project["optional-dependencies"].values()
    return {name_of(requirement) for entries in lists for requirement in entries}


def test_every_requirement_is_listed_and_nothing_else():
    assert set(table()) == requirements()


def test_licences_are_those_of_the_packages():
    """Of those that are installed here: at least what the tests themselves need."""
    num_compared = 0
    for name, licence in table().items():
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        classifiers = metadata.get_all("Classifier") or []
        stated = [metadata.get("License-Expression"), metadata.get("License"), *classifiers]
        words = " ".join(str(entry) for entry in stated if entry)
        assert re.search(FAMILIES[licence.split()[0]], words), (name, licence, words[:200])
        num_compared += 1
    assert num_compared >= 5


def test_the_wheel_declares_its_own_licence():
    metadata = importlib.metadata.metadata("mindspore_relay")
    assert metadata["License-Expression"] == "Apache-2.0"
