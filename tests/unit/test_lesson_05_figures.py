"""The heat table tells, from X-rays, what each operation added to each part of a table."""

from lab_env.hudi.model import DataFile, Snapshot
from lab_env.lessons.l05.figures import WriteHeat, data_files


def picture(files: dict[str, int], since: Snapshot | None = None) -> Snapshot:
    """An X-ray of a table with these files; names begin with their kind."""
    data = tuple(
        DataFile("day", "g", "1", name.split("-")[0], name, size, True)
        for name, size in files.items()
        if not name.startswith("metadata")
    )
    kept = tuple(("metadata", n, size) for n, size in files.items() if n.startswith("metadata"))
    return Snapshot("s3a://b/t", "t", "COPY_ON_WRITE", 9, (), data, (), kept, since)


FIRST = picture({"base-1": 20_000, "metadata-1": 500})
PICTURES = {
    ("insert", "cow"): FIRST,
    ("insert", "mor"): FIRST,
    ("update", "cow"): picture({"base-1": 20_000, "base-2": 21_000, "metadata-1": 500}, FIRST),
    ("update", "mor"): picture({"base-1": 20_000, "log-1": 900, "metadata-1": 500}, FIRST),
}


def test_only_what_is_new_since_the_picture_before_is_counted():
    table = WriteHeat(PICTURES).frame()
    assert table.loc["insert", ("cow", "base")] == 20_000
    assert table.loc["update", ("cow", "base")] == 21_000
    assert table.loc["update", ("cow", "metadata")] == 0
    assert table.loc["update", ("mor", "base")] == 0 and table.loc["update", ("mor", "log")] == 900


def test_files_that_are_gone_are_not_files_that_were_written():
    cleaned = picture({"base-2": 21_000}, PICTURES["update", "cow"])
    assert data_files(cleaned) == "none"


def test_guesses_are_marked_and_dots_are_no_guess():
    guesses = {"cow": {"insert": "base", "update": "log"}, "mor": {"insert": ..., "update": "Log "}}
    heat = WriteHeat(PICTURES, guesses)
    assert heat.marks("cow") == {"insert": "✓ base", "update": "✗ log"}
    assert heat.marks("mor") == {"insert": "", "update": "✓ Log "}
    assert heat.score() == "You guessed 2 of 3 right."
    for text in (heat._repr_html_(), repr(heat)):
        assert "✗ log" in text and "2 of 3" in text


def test_without_guesses_there_is_no_column_and_no_score():
    for text in (WriteHeat(PICTURES)._repr_html_(), repr(WriteHeat(PICTURES))):
        assert "you said" not in text and "guessed" not in text


def test_more_bytes_have_a_stronger_colour():
    page = WriteHeat(PICTURES)._repr_html_()

    def strength(size: str) -> float:
        return float(
            page.split(f"{size} in 1<")[0].rpartition("rgba(")[2].split(",")[3].split(")")[0]
        )

    assert strength("21 KB") > strength("900 B")
