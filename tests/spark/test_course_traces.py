"""No check passes an answer that changes its arguments or the session, whatever it returns."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lab_env.course.checking import NotYet
from lab_env.course.traces import session_left_as_found, unwatched, watched


def empties(batches, **options):
    batches.clear()


def adds_an_option(batches, **options):
    options["limits"]["more"] = 1


def sorts_what_it_holds(batches, **options):
    batches[0].sort()


def copies(batches, **options):
    sorted(batches[0])


@pytest.mark.parametrize("changes", [empties, adds_an_option, sorts_what_it_holds])
def test_an_argument_that_is_changed_in_place_is_named(changes):
    with pytest.raises(NotYet, match=f"`{changes.__name__}` changes the (list|dict)"):
        watched([changes])[0]([[2, 1]], limits={"all": 0})
    watched(copies)([[2, 1]], limits={"all": 0})
    watched(copies)([[2, 1], object(), np.zeros(2), iter([1])], rows=pd.DataFrame({"a": [1]}))
    assert unwatched(watched(copies)) is copies


OPTIONS = {"type": "cow"}


def test_a_constant_of_the_notebook_that_is_changed_is_named_and_put_back():
    def write(kind):
        def choose():
            OPTIONS["type"] = kind

        choose()

    with pytest.raises(NotYet, match="`write` changes `OPTIONS`"):
        watched(write)("mor")
    assert OPTIONS == {"type": "cow"}
    watched(write)("cow")


def test_a_default_argument_that_is_changed_is_named_and_put_back():
    def write(kind, options=OPTIONS):
        options["type"] = kind

    with pytest.raises(NotYet, match="`write` changes `options`"):
        watched(write)("mor")
    assert OPTIONS == {"type": "cow"}


def test_what_is_no_function_is_handed_on_as_it_is():
    for answer in (SimpleNamespace, {"a": 1}, ("fast", 4), None):
        assert watched(answer) is answer or watched(answer) == answer


def test_a_changed_setting_is_named_and_one_that_is_put_back_is_not(spark):
    name = "hoodie.datasource.query.type"
    in_words = pytest.raises(NotYet, match=rf"`{name}` for the whole session")
    for _ in range(2):  # what was changed is put back, so the next run is refused as well
        with in_words, session_left_as_found(spark):
            spark.conf.set(name, "read_optimized")
        assert spark.conf.get(name, "") == ""
    with session_left_as_found(spark):
        spark.conf.set(name, "snapshot")
        spark.conf.unset(name)


def test_a_view_in_front_of_a_table_is_named_and_any_other_is_not(spark):
    spark.sql("CREATE TABLE bills USING parquet AS SELECT 1 AS id")
    with session_left_as_found(spark):
        spark.range(1).createOrReplaceTempView("new_bills")
    in_words = pytest.raises(NotYet, match=r"the name of a table: `bills`")
    with in_words, session_left_as_found(spark):
        spark.range(1).createOrReplaceTempView("bills")
    assert spark.table("bills").first().id == 1
    for kind in ("VIEW new_bills", "TABLE bills"):
        spark.sql(f"DROP {kind}")


def test_without_a_session_there_is_nothing_to_watch():
    with session_left_as_found(None):
        pass
