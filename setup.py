"""The native core: optional, unless CANONRY_REQUIRE_NATIVE=1 says that a failed compile must be seen."""

import os

from setuptools import Extension, setup

IS_REQUIRED = os.environ.get("CANONRY_REQUIRE_NATIVE", "0") not in ("", "0")
HEADERS = ["column.h", "mend.h", "rules.h", "scan.h", "sha256.h", "url.h"]

setup(
    ext_modules=[
        Extension(
            "canonry.core.native._fast",
            ["src/canonry/core/native/_fast.c"],
            depends=[f"src/canonry/core/native/{header}" for header in HEADERS],
            extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            optional=not IS_REQUIRED,
        )
    ]
)
