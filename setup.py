# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ library with CMake, into the package. All the rest is in pyproject.toml.

Environment:
    CMAKE_ARGS: more arguments for the configure step, for example "-DCMAKE_BUILD_TYPE=Debug".
    CMAKE_BUILD_PARALLEL_LEVEL: number of compile jobs; default: all processors.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCE_DIR = Path(__file__).resolve().parent
PACKAGE = "mindspore_relay"


class CMakeBuild(build_ext):
    """Configures, builds and installs target mindspore_relay_ops into the package folder."""

    def run(self):
        build_dir = SOURCE_DIR / "build" / "cmake"
        package_root = SOURCE_DIR if self.inplace else Path(self.build_lib).resolve()
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
        # --fresh: forgets options and tools of an earlier build, keeps the compiled objects.
        configure = ["cmake", "--fresh", "-S", str(SOURCE_DIR), "-B", str(build_dir)]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        self._cmake(configure + shlex.split(os.environ.get("CMAKE_ARGS", "")))
        self._cmake(
            ["cmake", "--build", str(build_dir), "--target", "mindspore_relay_ops", "-j", jobs]
        )
        self._cmake(["cmake", "--install", str(build_dir), "--prefix", str(package_root / PACKAGE)])

    def _cmake(self, command):
        self.announce(shlex.join(command), level=2)
        try:
            subprocess.run(command, check=True)
        except FileNotFoundError:
            raise SystemExit(
                "mindspore_relay: cmake not found; install it with: pip install cmake"
            ) from None
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"mindspore_relay: {shlex.join(command)} failed, see above") from error

    def get_outputs(self):
        return []

    def get_output_mapping(self):
        return {}


class PlatformWheel(bdist_wheel):
    """The library uses no Python ABI: one wheel serves every Python 3 of a platform."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    # Named only so that setuptools knows the wheel is not pure and runs build_ext.
    ext_modules=[Extension(f"{PACKAGE}.lib", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": PlatformWheel},
)
