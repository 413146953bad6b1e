"""A program that a lesson's notebook started is found again by the lesson, and by no other."""

import os
import subprocess
import sys

from lab_env.processes.environment import mark_of_lesson, programs_of_lesson


def test_a_program_of_a_lesson_is_found_although_nobody_holds_it(home):
    home.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
        env={**os.environ, **mark_of_lesson("lesson-18")},
        stdout=subprocess.PIPE,
    )
    try:
        assert program.stdout.readline()  # it is itself by now, not its fork
        assert [found.pid for found in programs_of_lesson("lesson-18")] == [program.pid]
        assert programs_of_lesson("lesson-17") == []
    finally:
        program.kill()
        program.communicate()
