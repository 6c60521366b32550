"""The native core: optional, unless CANONRY_REQUIRE_NATIVE=1 makes a failed compilation an error.

With CANONRY_PURE=1 it is left out: the wheel then fits every Python and system.
"""

import os

from setuptools import Extension, setup

IS_REQUIRED = os.environ.get("CANONRY_REQUIRE_NATIVE", "0") not in ("", "0")
IS_PURE = os.environ.get("CANONRY_PURE", "0") not in ("", "0")
FOLDER = "src/canonry/core/native"
SOURCES = [
    "_fast",
    "_fast_column",
    "answer",
    "column",
    "override_path",
    "overrides",
    "params",
    "repair",
    "policy_rules",
    "rules",
    "scan",
    "sha256",
    "simhash",
    "site_match",
    "site_target",
    "site_write",
    "sites",
    "url",
]
WITHOUT_HEADER = ("_fast_column", "override_path")
HEADERS = [*(source for source in SOURCES if source not in WITHOUT_HEADER), "bytes", "scan_words", "site_program"]

COMPILE_ARGS = ["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"]

NATIVE_CORE = Extension(
    "canonry.core.native._fast",
    [f"{FOLDER}/{source}.c" for source in SOURCES],
    depends=[f"{FOLDER}/{header}.h" for header in HEADERS],
    extra_compile_args=COMPILE_ARGS,
    optional=not IS_REQUIRED,
)

LEARNER_FOLDER = "src/canonry/learner/native"
NATIVE_LEARNER = Extension(
    "canonry.learner.native._features",
    [f"{LEARNER_FOLDER}/{source}.c" for source in ("_features", "features", "group")],
    depends=[f"{LEARNER_FOLDER}/{header}.h" for header in ("features", "group")],
    extra_compile_args=COMPILE_ARGS,
    optional=not IS_REQUIRED,
)

setup(ext_modules=[] if IS_PURE else [NATIVE_CORE, NATIVE_LEARNER])
