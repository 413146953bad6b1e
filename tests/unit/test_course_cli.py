"""`lab progress` and `lab author` answer from the shell, without services."""


def test_progress_lists_every_lesson(lab_command, tmp_path):
    done = lab_command("progress", LAB_PROGRESS=str(tmp_path / "none yet.json"))
    assert done.returncode == 0, done.stderr
    assert "00  What is a streaming lakehouse" in done.stdout
    assert "0 of 3 passed; open: 00.1, 00.2, 00.3" in done.stdout


def test_a_lesson_that_is_not_there_gets_one_sentence(lab_command):
    done = lab_command("author", "run", "98")
    assert done.returncode == 1
    assert (
        "Lesson 98 has no source in solutions/src." in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_name_that_does_not_fit_gets_an_example(lab_command):
    done = lab_command("author", "new", "5", "Cow")
    assert done.returncode == 1 and "lab author new 05 cow_and_mor" in done.stderr
