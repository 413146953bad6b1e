"""Find the streaming queries whose tasks make progress, from data in Spark's driver."""

import time

# Progress of a stage's tasks; these only rise.
AMOUNTS = (
    "numCompleteTasks",
    "inputRecords",
    "inputBytes",
    "outputRecords",
    "outputBytes",
    "shuffleReadRecords",
    "shuffleReadBytes",
    "shuffleWriteRecords",
    "shuffleWriteBytes",
)
# The same of a running task, without its costs: times, memory.
MOVED = tuple(f"internal.metrics.{what}." for what in ("input", "output", "shuffle"))


def heartbeat(patience: float) -> dict[str, str]:
    """Spark option that makes executors send several heartbeats within a watchdog's patience.

    The patience is the number of seconds without progress after which a query counts as hung.
    """
    seconds = min(10.0, patience / 5)  # Spark's default is 10 s, too long for a short patience
    return {"spark.executor.heartbeatInterval": f"{seconds * 1000:.0f}ms"}


def look_seconds(patience: float) -> float:
    """Interval between two checks of the tasks, in seconds."""
    return min(10.0, patience / 15)


class Tasks:
    """Tasks of streaming queries, each of which has its own scheduler pool.

    They are read from the store behind Spark's web UI, which exists even if the UI is off. With a
    local master this store shows that a task runs, but not its metrics (3.5.7: their names get lost
    between executor and driver). So the executor's heartbeats are evaluated, too.
    """

    def __init__(self, spark):
        jvm, context = spark._jvm, spark._jsc.sc()
        by_name = jvm.java.lang.Class.forName
        self._store = context.statusStore()
        self._stage = by_name("org.apache.spark.status.StageDataWrapper")
        self._named = jvm.org.apache.spark.util.AccumulatorContext
        self._heartbeats = jvm.java.util.concurrent.ArrayBlockingQueue(100)
        if context.isLocal():
            listener = by_name("org.apache.spark.scheduler.SparkListenerInterface")
            arguments = self._heartbeats, "offer", "", "onExecutorMetricsUpdate"
            keep = jvm.java.beans.EventHandler.create(listener, *arguments)
            context.addSparkListener(keep)
        self._ended = int(time.time() * 1000)
        self._of_stages: dict[tuple[int, int], int] = {}
        self._of_tasks: dict[int, int] = {}

    def went_on(self) -> set[str]:
        """Return the pools that made progress since the last call, or whose tasks wait for a core.

        A running task that reads and writes nothing does not count: it may be in an endless loop,
        or frozen.
        """
        return self._active() | self._ended_stages()

    def _active(self) -> set[str]:
        amounts, pools, running = {}, {}, set()
        for stage in _each(self._store.activeStages()):
            key = stage.stageId(), stage.attemptId()
            pools[key] = stage.schedulingPool()
            amounts[key] = sum(getattr(stage, name)() for name in AMOUNTS)
            if stage.numActiveTasks():
                running.add(pools[key])
        moved = {key for key in amounts if amounts[key] > self._of_stages.get(key, 0)}
        self._of_stages = amounts
        went_on = {pools[key] for key in (moved | self._heard_of()) & pools.keys()}
        # Tasks that hold the cores are judged by their progress. If none makes any, nothing will
        # come.
        return went_on | (set(pools.values()) - running if running else set())

    def _heard_of(self) -> set[tuple[int, int]]:
        """Stages in which a running task has read or written, according to its heartbeats."""
        moved = set()
        while (event := self._heartbeats.poll()) is not None:
            tasks = {u._1(): (u, self._amount(u._4())) for u in _each(event.accumUpdates())}
            for task, (update, amount) in tasks.items():
                if amount > self._of_tasks.get(task, 0):
                    moved.add((update._2(), update._3()))
            # The driver, which has no tasks, sends its own heartbeats.
            if tasks:
                self._of_tasks = {task: amount for task, (_, amount) in tasks.items()}
        return moved

    def _amount(self, metrics) -> int:
        amount = 0
        for metric in _each(metrics):
            known = self._named.get(metric.id())
            name = known.get().name() if known.isDefined() else known
            if name.isDefined() and name.get().startswith(MOVED) and "Time" not in name.get():
                amount += metric.update().get()
        return amount

    def _ended_stages(self) -> set[str]:
        """Pools of stages that ended since the last call, even if they also began since then."""
        view = self._store.store().view(self._stage).index("completionTime")
        ended = [wrapper.info() for wrapper in view.first(self._ended + 1).iterator()]
        times = (stage.completionTime().get().getTime() for stage in ended)
        self._ended = max(times, default=self._ended)
        return {stage.schedulingPool() for stage in ended if stage.numCompleteTasks()}


def _each(sequence):
    return (sequence.apply(position) for position in range(sequence.size()))
