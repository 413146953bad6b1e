"""A lesson's other answers are tried again when something changed that gives them a verdict."""

import pytest

from lab_env.course.authoring import tried
from lab_env.course.source import sources


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Lesson 05 in a folder of its own, recorded as tried."""
    copy = tmp_path / "lab_env" / "lessons" / "l05"
    copy.mkdir(parents=True)
    (source,) = (path for path in sources() if path.stem.startswith("05"))
    for file in (source, source.with_name("checks.py"), source.parents[1] / "rows.py"):
        folder = copy.parent if file.name == "rows.py" else copy
        (folder / file.name).write_text(file.read_text())
    (tmp_path / tried.LOCK).write_text("pins")
    (tmp_path / tried.PINS).parent.mkdir(parents=True)
    (tmp_path / tried.PINS).write_text("[jars.spark]\na = 1\n[jars.profiler]\nb = 1\n")
    monkeypatch.setattr(tried, "REPOSITORY", tmp_path)
    monkeypatch.setattr(tried, "RECORD", tmp_path / "tried")
    monkeypatch.setattr(tried, "sources", lambda: [copy / source.name])
    monkeypatch.setattr(tried.COURSE.__class__, "lesson", lambda tree, number: copy)
    tried.keep("05", tried.fingerprint("05"))
    return copy / source.name


@pytest.mark.parametrize(
    ("file", "old", "new", "again"),
    [
        ("05_cow_and_mor.py", "# # 05", "# # 05, again", False),
        ("05_cow_and_mor.py", '# %% wrong="05.1"', '# %% wrong="05.1"\n# more', True),
        ("05_cow_and_mor.py", "# BEGIN SOLUTION", "# BEGIN SOLUTION\nmore = 0", True),
        ("checks.py", '"""Let', '"""Once more, let', False),
        (
            "05_cow_and_mor.py",
            "made a COPY_ON_WRITE table\n",
            "made a COPY_ON_WRITE table\n# falls: holds\n",
            False,
        ),
        ("checks.py", "rows == 4", "rows == 5", True),
        ("../rows.py", "== kind", "!= kind", True),
        ("../../../requirements.lock", "pins", "newer pins", True),
        ("../../platform/install/versions.toml", "a = 1", "a = 2", True),
        ("../../platform/install/versions.toml", "b = 1", "b = 2", False),
    ],
)
def test_only_what_can_change_a_verdict_counts(lesson, file, old, new, again):
    tried._imported.cache_clear()
    path = lesson.parent / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert (tried.recorded() != {"05": tried.fingerprint("05")}) is again
