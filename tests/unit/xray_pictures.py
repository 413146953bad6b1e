"""Made-up tables of every shape that the X-ray must be able to draw."""

from dataclasses import replace

from xray_tables import OTHER_DAY, T1, T2, T3, T4, base, committed, done, log, stat, table


def group(number: int) -> str:
    return f"{number:08x}-ed49-4a87-9a58-abb72b4ab274-0"


def at(day: int, hour: int = 9, minute: int = 0) -> str:
    return f"202611{day:02d}{hour:02d}{minute:02d}00000"


def many_groups(count: int, partitions: int = 1, name: str = "day=2026-11-{:02d}"):
    """Return a table whose second write logs to some file groups, and whose third rewrites some."""
    places = [(group(n), name.format(n % partitions)) for n in range(count)]
    return table(
        *done(T1), *done(T2), *done(T3),
        *[base(T1, *place) for place in places],
        *[log(T2, *place) for place in places[::3]],
        *[base(T3, *place) for place in places[::4]],
    )  # fmt: skip


def many_instants(count: int):
    times = [at(20, 9 + n // 60, n % 60) for n in range(count)]
    keys = [
        key
        for n, t in enumerate(times)
        for key in done(t, "clean" if n % 5 == 4 else "deltacommit")
    ]
    logs = [log(t, group(1)) for n, t in enumerate(times) if n and n % 5 != 4]
    return table(*keys, base(times[0], group(1)), base(times[0], group(2), OTHER_DAY), *logs)


def over_days():
    times = [at(18), at(18, 13), at(20), at(21), at(21, 9, 1)]
    return table(*[key for t in times for key in done(t, "replacecommit")], base(times[0]))


def changed():
    before = table(*done(T1), base(T1), base(T1, "b-0", OTHER_DAY), base(T1, "c-0"))
    return table(
        *done(T1), *done(T2), *done(T3, "clean"), f".hoodie/timeline/{T4}.deltacommit.inflight",
        base(T2), base(T1, "c-0"), log(T2, "c-0"), log(T2, "c-0") + ".cdc", base(T4, "c-0"),
        base(at(20, 9, 3).replace("00000", "30000"), "c-0"), since=before,
    )  # fmt: skip


def counted():
    """Return a table of one file group with 1,000 rows and six logs of 250 updates each."""
    first, *later = [at(20, 9, minute) for minute in range(7)]
    insert = stat(base(first, group(1)), written=1000, inserted=1000, group=group(1))
    updates = [stat(log(t, group(1)), written=250, updated=250, group=group(1)) for t in later]
    contents = {
        done(instant)[0]: committed("UPSERT", file)
        for instant, file in zip([first, *later], [insert, *updates], strict=True)
    }
    return table(
        *[key for instant in (first, *later) for key in done(instant)],
        *[file["path"] for file in (insert, *updates)],
        contents=contents,
    )


def long_names():
    day = "region=the-far-north-of-the-country/warehouse=number-two/day=2026-11-20/hour=13"
    properties = f"hoodie.table.name={'orders_' * 20}\nhoodie.table.version=9\n"
    keys = [
        *done(T1),
        *done(T2),
        base(T1, group(1), day),
        base(T2, group(1), day),
        base(T1, group(2)),
    ]
    return table(*keys, properties=properties)


def rivals():
    """Return a table written by two named jobs and an unnamed one, with one damaged log file."""
    writes = {T1: "the stream", T2: "backfill", T3: "", T4: "the stream"}
    files = {T1: base(T1), T2: base(T2, "b-0", OTHER_DAY), T3: log(T3), T4: log(T4)}
    contents = {
        done(t)[0]: committed("UPSERT", stat(files[t]), **({"_writer": name} if name else {}))
        for t, name in writes.items()
    }
    plain = table(*done(T1), *done(T2), *done(T3), *done(T4), *files.values(), contents=contents)
    return replace(plain, damage={log(T4): "block 1 ends within its first length"})


TABLES = {
    **{f"{n} groups": lambda n=n: many_groups(n) for n in (1, 7, 10, 24, 60, 200)},
    "60 groups in 12 partitions": lambda: many_groups(60, 12),
    "200 partitions": lambda: many_groups(200, 200, "partition_date=number-{:03d}"),
    "200 nested partitions": lambda: many_groups(200, 200, "region=north/warehouse={:03d}/hour=3"),
    "7 partitions": lambda: many_groups(7, 7),
    "500 groups": lambda: many_groups(500, 40),
    **{f"{n} instants": lambda n=n: many_instants(n) for n in (1, 8, 14, 30, 90)},
    "days": over_days,
    "changed": changed,
    "counted": counted,
    "rivals": rivals,
    "long names": long_names,
    "empty": table,
}
