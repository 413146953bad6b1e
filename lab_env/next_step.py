"""What `lab` says without an argument: the one command that makes sense now."""

from collections.abc import Sequence

from lab_env.course.progress import CourseProgress
from lab_env.services import ServiceStatus

WELL = ("ready", "external", "running", "stopped")


def next_step(services: Sequence[ServiceStatus], progress: CourseProgress) -> str:
    """The next step, as a sentence that begins with a command.

    Args:
        services: what `services.status()` found.
        progress: of the course.
    """
    if unwell := [service.name for service in services if service.state not in WELL]:
        return f"lab doctor says what is wrong with {', '.join(unwell)}"
    if (found := progress.next_exercise()) is None:
        return "lab certificate; every exercise is passed"
    lesson, exercise = found
    how = "go on with" if progress.kept["exercises"] else "begin with"
    return f"lab jupyter, then {how} lesson {lesson.number}, exercise {exercise}: {lesson.title}"
