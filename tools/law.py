"""Record the digest and the sample answers of every policy that was ever shipped ("the version law").

    python tools/law.py            add the policies that are not in the record yet (make law)
    python tools/law.py samples    write the samples of the policies that are not in the record yet

An entry of the record never changes, because stored keys depend on it; tests/core/test_law.py checks it. The samples
that an entry was recorded with never change, either: a later policy gets further samples (`samples` counts the files).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import canonry

CASES = Path(__file__).parent.parent / "tests" / "cases"
RECORD = CASES / "law.json"
SAMPLE_FILES = (CASES / "law_urls.txt", CASES / "law_urls_2.txt")


def read_record() -> dict[str, dict[str, Any]]:
    """Return the record: digest, answers and number of sample files by policy id."""
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return record


def count_sample_files(policy_id: str) -> int:
    """Return with how many sample files a policy was or will be recorded."""
    entry = read_record().get(policy_id)
    count: int = len(SAMPLE_FILES) if entry is None else entry.get("samples", 1)
    return count


def read_sample_urls(policy_id: str) -> list[str]:
    """Return URLs that together make every rule of the policy change something."""
    files = SAMPLE_FILES[: count_sample_files(policy_id)]
    return [url for file in files for url in file.read_text(encoding="utf-8").splitlines()]


def compute_answers(policy: canonry.Policy) -> dict[str, str]:
    """Normalize every sample under the policy; return the answers that differ from the sample."""
    urls = read_sample_urls(policy.id)
    found = zip(urls, canonry.normalize_many(urls, policy), strict=True)
    return {url: answer or "refused" for url, answer in found if answer != url}


def make_new_samples() -> list[str]:
    """Return a URL for each parameter of the second list, and two for each row of each site table."""
    import site_format

    recorded = {name for policy_id in read_record() for name in canonry.policy(policy_id).strip_params}
    newest = {name for policy in canonry.policies() for name in policy.strip_params} - recorded
    urls = [f"https://example.com/a?{name.replace('*', 'x')}=1&b=2" for name in sorted(newest)]
    urls += [
        f"https://{site}/a?{name}=1" for site, name in (("transfernow.net", "utm_source"), ("univis.fau.de", "__s"))
    ]
    urls += [
        "https://example.com/a#xtor=RSS-1",
        "https://example.com/a#intro:~:text=word",
        "https://example.com/web/https://b.example/?utm_source=a",
        "https://example.com/?https://b.example/?utm_source=a",
    ]
    urls += [url for file in site_format.read_site_files() for row in file.rows if row.same for url in row.urls[:2]]
    return list(dict.fromkeys(urls))


def main(arguments: list[str]) -> None:
    if arguments == ["samples"]:
        SAMPLE_FILES[-1].write_text("\n".join(make_new_samples()) + "\n", encoding="utf-8")
        return
    record = read_record()
    new = [policy for policy in canonry.policies() if policy.id not in record]
    entries: dict[str, dict[str, Any]] = {
        policy.id: {"digest": policy.digest, "samples": len(SAMPLE_FILES), "answers": compute_answers(policy)}
        for policy in new
    }
    RECORD.write_text(json.dumps(record | entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for policy_id in entries:
        print(f"recorded {policy_id}")
    if not new:
        print("nothing to do: every shipped policy is in the record")


if __name__ == "__main__":
    main(sys.argv[1:])
