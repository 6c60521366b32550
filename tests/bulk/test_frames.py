"""The namespaces of polars and pandas: for every row what canonry.normalize says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import canonry
import mixed_urls
from canonry.bulk import frames
from corpora import POLICIES

pa: Any = pyarrow
pd: Any = pandas
pl: Any = polars
URLS = mixed_urls.urls()
ASKED = {"normalize": mixed_urls.normal, "key": mixed_urls.key, "hash": mixed_urls.digest}
DTYPES = ["str", "string", "object", "category", pd.ArrowDtype(pa.string()), pd.ArrowDtype(pa.large_string())]


def test_both_are_known_by_one_import() -> None:
    assert frames.LIBRARIES == ("polars", "pandas")


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("policy", POLICIES)
def test_polars_says_what_normalize_says(policy: str, method: str) -> None:
    wanted = [ASKED[method](url, policy) for url in URLS]
    frame = pl.DataFrame({"url": URLS})
    expression = getattr(pl.col("url").canonry, method)(policy)
    for answers in (
        frame.select(expression)["url"],
        frame.lazy().select(expression).collect(engine="streaming")["url"],
        getattr(frame["url"].canonry, method)(policy),
    ):
        assert answers.dtype == pl.String
        assert answers.name == "url"
        assert answers.to_list() == wanted


def test_polars_groups_and_joins() -> None:
    frame = pl.DataFrame({"url": ["https://A.com/?utm_source=x", "https://a.com", None, "nope"]})
    counted = frame.group_by(pl.col("url").canonry.key().alias("key")).len().sort("key")
    assert counted.rows() == [(None, 2), ("https://a.com/", 2)]
    assert frame.lazy().with_columns(key=pl.col("url").canonry.key()).collect_schema()["key"] == pl.String


def test_polars_columns_of_other_types() -> None:
    url = "https://A.com"
    kinds = pl.Series([url, None]).cast(pl.Categorical), pl.Series([url, None], dtype=pl.Enum([url]))
    for series in kinds:
        assert series.canonry.normalize().to_list() == ["https://a.com/", None]
    for series in (pl.Series([1, 2]), pl.Series([None, None]), pl.Series([b"https://a.com/", b""])):
        assert series.canonry.key().to_list() == [None, None]
    assert pl.Series([], dtype=pl.String).canonry.hash().to_list() == []


def test_polars_a_policy_that_is_not_there_is_named_at_once() -> None:
    with pytest.raises(canonry.PolicyError, match="no policy 'none'"):
        pl.col("url").canonry.normalize("none")


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("policy", POLICIES)
def test_pandas_says_what_normalize_says(policy: str, method: str) -> None:
    wanted = [ASKED[method](url, policy) for url in URLS]
    series = pd.Series(URLS, index=range(len(URLS), 0, -1), name="url")
    answers = getattr(series.canonry, method)(policy)
    assert [None if pd.isna(answer) else answer for answer in answers] == wanted
    assert answers.index.equals(series.index)
    assert answers.name == "url"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pandas_keeps_index_and_dtype(dtype: Any) -> None:
    series = pd.Series(["https://A.com", None, "nope", "https://b.com/?utm_id=1"], index=[3, 3, 1, 0], dtype=dtype)
    for method in ASKED:
        answers = getattr(series.canonry, method)("bookmark")
        assert answers.dtype == ("str" if dtype == "category" else series.dtype)
        assert answers.index.tolist() == [3, 3, 1, 0]
        assert answers.isna().tolist() == [False, True, True, False]
    assert series.canonry.normalize().tolist()[3] == "https://b.com/"


def test_pandas_columns_of_other_types() -> None:
    mixed = pd.Series([5, "https://A.com", None, float("nan"), b"x"], dtype=object)
    assert mixed.canonry.key().tolist() == [None, "https://a.com/", None, None, None]
    assert pd.Series([1, 2]).canonry.normalize().isna().all()
    assert pd.Series([], dtype="str").canonry.hash().tolist() == []
    with pytest.raises(canonry.PolicyError, match="no policy 'none'"):
        mixed.canonry.normalize("none")


@pytest.mark.parametrize(("library", "other"), [("polars", "pandas"), ("pandas", "polars")])
def test_one_library_does_without_the_other(library: str, other: str) -> None:
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name.partition('.')[0] == '{other}': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        f"import canonry.bulk.{library}, {library}\n"
        f"print({library}.Series(['https://A.com']).canonry.key()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("https://a.com/\n", "")


def test_without_either_it_says_what_to_install() -> None:
    code = "import importlib.util as util; util.find_spec = lambda name: None; import canonry.bulk.frames"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("ImportError: no data frames here: pip install polars or pandas\n")
