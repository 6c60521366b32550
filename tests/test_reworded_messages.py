"""Code never decides by a sentence: with all messages replaced by random words, the suites still pass.

tests/reworded.py replaces the words while canonry is imported; see there for what counts as a message.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SUITES = {  # arguments of pytest in the folder of the tests
    "crawl": ("crawler", "contracts/test_crawl_store.py", "-k", "not chrome"),
    "fetch": ("net/test_fetch.py", "net/test_robots.py", "bookmarks/test_expand.py"),
    "tab": ("net/chrome/test_tab.py",),
    "jobs": ("jobs/test_queues.py",),
}


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES)
def test_other_words_change_no_behaviour(suite: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "reworded",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            *SUITES[suite],
        ],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    found = re.search(r"reworded (\d+) messages", done.stderr)
    assert found is not None and int(found[1]) > 30, "the plugin has replaced the messages"
