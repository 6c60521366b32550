"""The namespaces for polars and pandas: the same results as canonry.normalize for every row."""

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
METHODS = {"normalize": mixed_urls.normal, "key": mixed_urls.key, "hash": mixed_urls.digest}
DTYPES = ["str", "string", "object", "category", pd.ArrowDtype(pa.string()), pd.ArrowDtype(pa.large_string())]


def test_one_import_registers_both_libraries() -> None:
    assert frames.LIBRARIES == ("polars", "pandas")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("policy", POLICIES)
def test_polars_equals_normalize(policy: str, method: str) -> None:
    wanted = [METHODS[method](url, policy) for url in URLS]
    frame = pl.DataFrame({"url": URLS})
    expression = getattr(pl.col("url").canonry, method)(policy)
    for results in (
        frame.select(expression)["url"],
        frame.lazy().select(expression).collect(engine="streaming")["url"],
        getattr(frame["url"].canonry, method)(policy),
    ):
        assert results.dtype == pl.String
        assert results.name == "url"
        assert results.to_list() == wanted


def test_polars_groups_by_key() -> None:
    frame = pl.DataFrame({"url": ["https://A.com/?utm_source=x", "https://a.com", None, "nope"]})
    counted = frame.group_by(pl.col("url").canonry.key().alias("key")).len().sort("key")
    assert counted.rows() == [(None, 2), ("https://a.com/", 2)]
    assert frame.lazy().with_columns(key=pl.col("url").canonry.key()).collect_schema()["key"] == pl.String


def test_polars_columns_of_other_types_give_null_where_they_hold_no_text() -> None:
    url = "https://A.com"
    kinds = pl.Series([url, None]).cast(pl.Categorical), pl.Series([url, None], dtype=pl.Enum([url]))
    for series in kinds:
        assert series.canonry.normalize().to_list() == ["https://a.com/", None]
    for series in (pl.Series([1, 2]), pl.Series([None, None]), pl.Series([b"https://a.com/", b""])):
        assert series.canonry.key().to_list() == [None, None]
    assert pl.Series([], dtype=pl.String).canonry.hash().to_list() == []


def test_polars_reports_an_unknown_policy_before_the_query_runs() -> None:
    with pytest.raises(canonry.PolicyError, match="none"):
        pl.col("url").canonry.normalize("none")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("policy", POLICIES)
def test_pandas_equals_normalize(policy: str, method: str) -> None:
    wanted = [METHODS[method](url, policy) for url in URLS]
    series = pd.Series(URLS, index=range(len(URLS), 0, -1), name="url")
    results = getattr(series.canonry, method)(policy)
    assert [None if pd.isna(result) else result for result in results] == wanted
    assert results.index.equals(series.index)
    assert results.name == "url"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pandas_keeps_index_and_dtype(dtype: Any) -> None:
    series = pd.Series(["https://A.com", None, "nope", "https://b.com/?utm_id=1"], index=[3, 3, 1, 0], dtype=dtype)
    for method in METHODS:
        results = getattr(series.canonry, method)("bookmark")
        assert results.dtype == ("str" if dtype == "category" else series.dtype)
        assert results.index.tolist() == [3, 3, 1, 0]
        assert results.isna().tolist() == [False, True, True, False]
    assert series.canonry.normalize().tolist()[3] == "https://b.com/"


def test_pandas_columns_of_other_types_give_missing_values_where_they_hold_no_text() -> None:
    mixed = pd.Series([5, "https://A.com", None, float("nan"), b"x"], dtype=object)
    assert mixed.canonry.key().tolist() == [None, "https://a.com/", None, None, None]
    assert pd.Series([1, 2]).canonry.normalize().isna().all()
    assert pd.Series([], dtype="str").canonry.hash().tolist() == []
    with pytest.raises(canonry.PolicyError, match="none"):
        mixed.canonry.normalize("none")


@pytest.mark.parametrize(("library", "other"), [("polars", "pandas"), ("pandas", "polars")])
def test_one_library_works_without_the_other(library: str, other: str) -> None:
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


def test_without_both_libraries_the_import_names_what_to_install() -> None:
    code = "import importlib.util as util; util.find_spec = lambda name: None; import canonry.bulk.frames"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith(
        "ImportError: No data frame library is installed. Run: pip install polars, or: pip install pandas\n"
    )
