"""The version law: the digest and the sample answers of every policy that was ever shipped.

    python tools/law.py     adds the policies that are not in the record yet (make law)

What is in the record never changes: stored keys depend on it. tests/core/test_law.py compares.
"""

from __future__ import annotations

import json
from pathlib import Path

import canonry

CASES = Path(__file__).parent.parent / "tests" / "cases"
RECORD = CASES / "law.json"
URLS = CASES / "law_urls.txt"


def sample_urls() -> list[str]:
    """URLs that between them make every rule of every policy fire."""
    return URLS.read_text(encoding="utf-8").splitlines()


def answers(policy: canonry.Policy) -> dict[str, str]:
    """What the policy makes of every sample, where that differs from the sample."""
    found = zip(sample_urls(), canonry.normalize_many(sample_urls(), policy), strict=True)
    return {url: answer or "refused" for url, answer in found if answer != url}


def main() -> None:
    record: dict[str, object] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    new = [policy for policy in canonry.policies() if policy.id not in record]
    for policy in new:
        record[policy.id] = {"digest": policy.digest, "answers": answers(policy)}
        print(f"recorded {policy.id}")
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not new:
        print("every shipped policy is in the record already")


if __name__ == "__main__":
    main()
