"""The native core: optional, unless CANONRY_REQUIRE_NATIVE=1 makes a failed compilation an error."""

import os

from setuptools import Extension, setup

IS_REQUIRED = os.environ.get("CANONRY_REQUIRE_NATIVE", "0") not in ("", "0")
FOLDER = "src/canonry/core/native"
SOURCES = [
    "_fast",
    "_fast_column",
    "answer",
    "column",
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
HEADERS = [*(source for source in SOURCES if source != "_fast_column"), "bytes", "site_program"]

setup(
    ext_modules=[
        Extension(
            "canonry.core.native._fast",
            [f"{FOLDER}/{source}.c" for source in SOURCES],
            depends=[f"{FOLDER}/{header}.h" for header in HEADERS],
            extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            optional=not IS_REQUIRED,
        )
    ]
)
