"""Record the digest and the sample answers of every policy that was ever shipped ("the version law").

    python tools/law.py     add the policies that are not in the record yet (make law)

An entry of the record never changes, because stored keys depend on it; tests/core/test_law.py checks it.
"""

from __future__ import annotations

import json
from pathlib import Path

import canonry

CASES = Path(__file__).parent.parent / "tests" / "cases"
RECORD = CASES / "law.json"
URLS = CASES / "law_urls.txt"


def read_sample_urls() -> list[str]:
    """Return URLs that together make every rule of every policy change something."""
    return URLS.read_text(encoding="utf-8").splitlines()


def compute_answers(policy: canonry.Policy) -> dict[str, str]:
    """Normalize every sample under the policy; return the answers that differ from the sample."""
    found = zip(read_sample_urls(), canonry.normalize_many(read_sample_urls(), policy), strict=True)
    return {url: answer or "refused" for url, answer in found if answer != url}


def main() -> None:
    record: dict[str, object] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    new = [policy for policy in canonry.policies() if policy.id not in record]
    for policy in new:
        record[policy.id] = {"digest": policy.digest, "answers": compute_answers(policy)}
        print(f"recorded {policy.id}")
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not new:
        print("nothing to do: every shipped policy is in the record")


if __name__ == "__main__":
    main()
