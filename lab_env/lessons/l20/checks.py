"""Checks of lesson 20: the break-even, comparing measurements, and buying rounds."""

from random import Random

from pyspark.sql import DataFrame

from lab_env.course.answers import as_choice, as_number, as_rows, plain
from lab_env.course.checking import check, expect
from lab_env.lessons.l20.bets import TRUTHS, Machine, play
from lab_env.tables.probes.verdict import EQUAL, HIGHER, INCONCLUSIVE, LOWER, Spread, verdict


@check("20.1")
def computes_the_break_even(lab, break_even):
    """Call the function for made-up runs, some of which have no break-even."""
    runs = made_up_runs(Random())
    frame = lab.spark.createDataFrame(as_recorded(runs), RECORDED)
    answer = break_even(frame)
    rows = as_rows(answer, ["index", "factor", "commits"])
    found = {(str(index), int(as_number(factor))): plain(value) for index, factor, value in rows}
    expect(len(rows) == len(found), "Your result has a run twice.")
    expect(found.keys() <= runs.keys(), "Your result has rows of runs that are not there.")
    for (index, factor), (cow, mor, compaction) in runs.items():
        expect(
            (index, factor) in found,
            "Your result has no row for the {} index, factor {}.",
            index,
            factor,
        )
        said = found[index, factor]
        run = (
            f"{index} index, factor {factor}: a commit writes {cow:,} bytes on Copy-on-Write "
            f"and {mor:,} on Merge-on-Read, a compaction {compaction:,}."
        )
        if cow <= mor:
            expect(
                said is None,
                "{} Merge-on-Read saves nothing, so it never writes less: NULL. You say {}.",
                run,
                said,
            )
            continue
        right = compaction / (cow - mor)
        expect(
            said is not None and abs(float(as_number(said)) - right) <= 1e-6 * right,
            "{} Each commit saves {:,}. After how many of them is the compaction paid for? You "
            "say {}, it is {:.2f}.",
            run,
            cow - mor,
            "NULL" if said is None else said,
            right,
        )
    expect(
        not isinstance(answer, DataFrame) or answer.where("isnan(commits)").isEmpty(),
        "Where Merge-on-Read saves nothing you say NaN, which Spark sorts and compares as the "
        "largest number: NULL.",
    )
    return "Each commit saves something; the compaction is paid for after that many."


RECORDED = (
    "type STRING, index STRING, factor INT, metric STRING, median DOUBLE, low DOUBLE, high DOUBLE, "
    "rounds INT"
)


def made_up_runs(rng: Random) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Return the bytes of a commit on each table type and of a compaction, by index and factor.

    In one run Merge-on-Read saves nothing, and in another it writes more.
    """
    runs = {}
    for index in ("bloom", "bucket"):
        for factor in (1, 2, 3):
            cow = rng.randrange(1_000_000, 2_000_000)
            mor = rng.randrange(200_000, 600_000)
            runs[index, factor] = cow, mor, rng.randrange(2_100_000, 4_000_000)
    runs["bucket", 3] = 500_000, 800_000, 900_000
    runs["bucket", 2] = 500_000, 500_000, 900_000
    return runs


def as_recorded(runs: dict[tuple[str, int], tuple[int, int, int]]) -> list[tuple]:
    """Return made-up runs as rows of `RECORDED`, as `lab bench growth` records them.

    Rows of other types and metrics, with larger numbers, come before and after the relevant ones.
    """
    rows = []
    for (index, factor), (cow, mor, compaction) in runs.items():
        other = 10 * compaction
        for kind, written, compacted in (
            ("avro", other, other), ("cow", cow, 0), ("json", other, other),
            ("mor", mor, compaction), ("text", other, other),
        ):  # fmt: skip
            metrics = {
                "arrow bytes": other, "bytes written": written, "commit bytes": other,
                "compaction bytes": compacted, "total bytes": other,
            }  # fmt: skip
            rows += [
                (kind, index, factor, metric, float(value), 0.9 * value, 1.1 * value, 4)
                for metric, value in metrics.items()
            ]
    return rows


# Rounds of one way and of another, and what a wrong verdict may have overlooked.
CASES = (
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), ""),
    ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), ""),
    ((5, 5, 5), (5, 5, 5), "All rounds gave the same figure."),
    ((5, 5, 6), (5, 5, 5), "The medians are the same, the rounds are not."),
    (
        (1.0, 1.1, 2.1),
        (2.0, 2.1, 2.2),
        "A round of the first lies among those of the second. You compare the medians alone.",
    ),
    (
        (1.0, 1.8, 1.9),
        (2.0, 2.1, 2.2),
        "The medians are 0.3 apart, but the first varies by itself by 0.9.",
    ),
    (
        (1.0, 1.0, 3.0),
        (2.9, 3.1, 3.2),
        "The medians are farther apart than either varies, but a round of the first lies above one "
        "of the second.",
    ),
    (
        (2.9, 3.1, 3.2),
        (1.0, 1.0, 3.0),
        "The medians are farther apart than either varies, but a round of the first lies below one "
        "of the second.",
    ),
    ((1, 1, 2), (2, 3, 3), "The highest round of the first equals the lowest of the second."),
    ((2, 3, 3), (1, 1, 2), "The lowest round of the first equals the highest of the second."),
)


@check("20.2")
def when_is_it_a_difference(lab, judge):
    """Compare the learner's rule with the benchmark's, on typical cases and many random ones."""
    for this, other, why in (*CASES, *drawn_cases(Random())):
        word = as_choice(judge(list(this), list(other)), (LOWER, HIGHER, EQUAL, INCONCLUSIVE))
        right = verdict(Spread.of(this), Spread.of(other))
        rounds = f"{list(this)} against {list(other)}"
        expect(word == right, "For {} you say {!r}, it is {!r}. {}", rounds, word, right, why)
    return "Six of the ten hard cases are no differences, though their medians differ."


def drawn_cases(rng: Random) -> list[tuple[tuple[int, ...], tuple[int, ...], str]]:
    """Return random pairs of measurements with small numbers, so that their ranges often touch."""
    cases = []
    for _ in range(400):
        rounds, apart = rng.randint(2, 4), rng.choice((0, 2, 4))
        this, other = (
            tuple(rng.randint(1, 4) + shift for _ in range(rounds))
            for shift in rng.choice(((0, apart), (apart, 0)))
        )
        cases.append((this, other, ""))
    return cases


MOST_FALSE, LEAST_FOUND, MOST_ROUNDS = 4, 85, 12  # percent, percent, mean of a bet


@check("20.3")
def buys_rounds(lab, decide):
    """Play 1,000 bets of each truth, on machines other than those of the scorecard."""
    rng = Random()
    machine = Machine(seconds=rng.uniform(0.05, 2), slow_rounds=rng.uniform(0.25, 0.5))
    scores = {truth: play(decide, truth, 1_000, rng, machine) for truth in TRUTHS}
    rounds = sum(score.rounds for score in scores.values()) / len(scores)
    expect(
        rounds <= MOST_ROUNDS,
        "You buy {:.1f} rounds a bet, and {} are paid for.",
        rounds,
        MOST_ROUNDS,
    )
    for claim in (LOWER, HIGHER):
        false = scores[INCONCLUSIVE].percent(claim)
        expect(
            false <= MOST_FALSE,
            "Nothing differed, and in {:.1f} percent of these bets you said {!r}; at most {} may "
            "be. Which of your claims would luck make as well?",
            false,
            claim,
            MOST_FALSE,
        )
    for claim in (LOWER, HIGHER):
        found = scores[claim].percent(claim)
        expect(
            found >= LEAST_FOUND,
            "Of the real differences that are {!r} you found {:.1f} percent; it should be {}. Slow "
            "rounds are slow for both systems: what do they leave alone?",
            claim,
            found,
            LEAST_FOUND,
        )
    return (
        f"You bought {rounds:.1f} rounds a bet, raised few false alarms, and found most of what "
        "was real."
    )
