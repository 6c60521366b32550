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
SUITES = {
    "crawl": ("crawler", "contracts/test_crawl_store.py"),
    "fetch": ("net/test_fetch.py", "net/test_robots.py", "bookmarks/test_expand.py"),
    "tab": ("net/chrome/test_tab.py",),
    "jobs": ("jobs/test_queues.py",),
}


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES)
def test_other_words_change_no_behaviour(suite: str) -> None:
    paths = [str(TESTS / path) for path in SUITES[suite]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "reworded", "-p", "no:cacheprovider", "-m", "not slow", *paths],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    found = re.search(r"reworded (\d+) messages", done.stderr)
    assert found is not None and int(found[1]) > 30, "the plugin has replaced the messages"
