"""Text and link that a card adds when the last open exercise of a lesson is passed."""

from lab_env.course.progress import CourseProgress


def finish(exercise_id: str, course: CourseProgress) -> tuple[str, str]:
    """Return a sentence and a link to the next lesson; both empty while an exercise is open."""
    lesson = course.lessons[exercise_id[:2]]
    if course.open_exercises(lesson):
        return "", ""
    count = len(lesson.exercises)
    done = f"Lesson {lesson.number}: {count} of {count} exercises passed."
    later = (entry for number, entry in course.lessons.items() if number > lesson.number)
    if (following := next(later, None)) is None:
        return f"{done} That was the last lesson.", ""
    return f"{done} Next: lesson {following.number}.", f"{following.name}.ipynb"
