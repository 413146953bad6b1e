"""Cards for known errors come from the troubleshooting page; other errors get no card."""

import importlib
import socket

import pytest
from IPython.core.interactiveshell import InteractiveShell

from lab_env.course import known_errors
from lab_env.course.known_errors import GUIDE, card_of, explain
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings


def test_every_pattern_of_the_page_belongs_to_a_section_with_advice():
    page = GUIDE.read_text()
    assert len(known_errors.known_errors()) == page.count("<!-- error:") >= 25
    for known in known_errors.known_errors():
        assert known.advice.endswith((".", ")")) and len(known.advice) < 350, known.heading
        assert not known.pattern.search(""), known.heading


def test_a_cause_is_found_behind_the_exception_that_a_cell_raised():
    error = RuntimeError("the batch failed")
    error.__cause__ = ValueError("...TableNotFoundException: Hoodie table not found in path /t")
    assert explain(error).heading.startswith("`TableNotFoundException")
    assert explain(error.__cause__) is explain(error)
    error.__cause__ = None
    error.cause = "its own word for it"  # of another library: not PySpark's
    assert explain(error) is None


def test_a_card_has_cause_and_fix_as_text_and_leads_to_its_section():
    html = card_of(KeyError("Hoodie table not found in path <script>"))
    assert "<script>" not in html and "There is no Hudi table" in html
    assert "docs/troubleshooting.md#tablenotfoundexception-hoodie-table-not-found-in-path" in html


LOST = "Some data may have been lost because they are not available in Kafka any more"
S3 = "Unable to execute HTTP request"
UNREAD = "Failed to retrieve files in partition d from metadata"
# Texts of Hudi 1.1.1, of Spark's Kafka source 3.5.7 and of the AWS SDK 1.12.262.
TEXTS = {
    f"{S3}: Timeout waiting for connection from pool": "`Timeout waiting",
    f"{S3}: Connect to 127.0.0.1:9000 failed": "`Unable to execute",
    f"offset was changed from 90 to 30, some data may have been missed.\n{LOST}": "`... are gone",
    f"OffsetOutOfRangeException: Fetch position is out of range\n{LOST}": "`Some data may",
    "ts(Part -ts) field not found in record. Acceptable fields were :[id]": "`... field not",
    "Could not delete instant [==>20261126120000000__commit__INFLIGHT]": "`Could not delete",
    "Could not sync using the meta sync class org.apache.hudi.hive.HiveSyncTool": "`Could not sync",
    "HoodieIOException: Fail to get the commit metadata for CDC": "`Fail to get",
    "HoodieRemoteException: Failed to create marker file f.marker.CREATE": "`HoodieRemoteException",
    f"HoodieException: Failed to create marker file f.marker\n{S3}": "`Unable to execute",
    UNREAD: "`Failed to retrieve",
    f"{UNREAD}\n{S3}: Connection refused": "`Unable to execute",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_names_several_causes_leads_to_the_innermost(text):
    known = explain(RuntimeError(text))
    assert known and known.heading.startswith(TEXTS[text])


def refused() -> ConnectionRefusedError:
    """Return the error of a learner's own client when no server listens; no JVM has died."""
    with pytest.raises(ConnectionRefusedError) as raised:
        socket.create_connection(("127.0.0.1", 1))
    return raised.value


# Spark's own: tests/spark/test_known_errors.py.
UNRELATED = [
    NameError("name 'orders' is not defined"), NameError("name 'labels' is not defined"),
    SyntaxError("invalid syntax"), KeyError("order_id"), ZeroDivisionError("division by zero"),
    TypeError("'ellipsis' object is not callable"), IndexError("list index out of range"),
    ValueError("could not convert string to float: 'abc'"), TimeoutError("timed out"),
    AttributeError("'DataFrame' object has no attribute 'ordr_id'"), AssertionError(),
    FileNotFoundError(2, "No such file or directory", "orders.csv"), KeyboardInterrupt(),
    ModuleNotFoundError("No module named 'polars'"), refused(),
]  # fmt: skip


@pytest.mark.parametrize("error", UNRELATED, ids=repr)
def test_nothing_is_said_of_other_errors(error):
    assert explain(error) is None


@pytest.fixture
def shell(monkeypatch):
    """An IPython shell that runs cells, and the list of HTML that it displays."""
    shell = InteractiveShell.instance()
    shown = []
    monkeypatch.setattr(
        "IPython.display.display", lambda item: shown.append(getattr(item, "data", item))
    )
    yield shell, shown
    InteractiveShell.clear_instance()
    settings.cache_clear()


def test_a_known_error_is_a_card_without_its_traceback_and_others_stay_as_they_are(shell, capsys):
    shell, shown = shell
    known_errors.explain_errors()
    known_errors.explain_errors()
    shell.run_cell("a = 1\nraise RuntimeError('Hoodie table not found in path s3a://b/t')")
    assert len(shown) == 1 and "Known: TableNotFoundException" in shown[0]
    assert "raise RuntimeError(" in shown[0]  # the learner's own line
    assert capsys.readouterr().out == ""
    assert "Traceback" in "".join(shell._last_traceback)
    shell.run_line_magic("tb", "")
    assert "Hoodie table not found" in capsys.readouterr().out
    result = shell.run_cell("1 / 0")
    shell.run_cell("1 + 1")
    assert len(shown) == 1 and isinstance(result.error_in_exec, ZeroDivisionError)
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_an_error_of_the_lab_is_a_card_with_its_next_step():
    html = card_of(LabError("No store.", "run: lab up"))
    assert "No store." in html and "Next step: run: lab up" in html


def test_an_import_of_an_older_copy_and_a_name_that_a_restart_took_are_explained():
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(".hudi", "lab_env")
    assert "has moved" in explain(raised.value).advice
    assert explain(NameError("name 'lab' is not defined")).heading.startswith("`name 'lab'")
    assert explain(NameError("name 'spark' is not defined"))


def test_a_setting_switches_the_cards_off(shell, configure):
    shell, shown = shell
    configure(error_cards="false")
    known_errors.explain_errors()
    shell.run_cell("raise RuntimeError('Hoodie table not found in path s3a://b/t')")
    assert shown == []
