"""Prefect tasks that are plain functions outside a flow run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from bpeline.flows.running import settings
from bpeline.flows.running.steps import all_results, map_threads, stopping_together, together
from bpeline.tokenizer_core.redaction import hide_in_errors

with settings.importing_prefect():
    import prefect as prefect
    from prefect.tasks import Task as PrefectTask
P = ParamSpec("P")
R = TypeVar("R")


class Task(PrefectTask[P, R]):  # type: ignore[misc]
    """A `prefect.Task` that calls its function directly outside a flow run."""

    def __init__(self, function: Callable[P, R], **options: Any) -> None:
        self.plain = function
        shown = hide_in_errors()(stopping_together(function))  # the server stores its errors
        uncached = prefect.cache_policies.NO_CACHE
        super().__init__(shown, cache_policy=uncached, persist_result=False, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        call = self.plain if prefect.context.FlowRunContext.get() is None else super().__call__
        return call(*args, **kwargs)

    def map_all(
        self,
        items: Sequence[Any],
        workers: int,
        on_interrupt: Callable[[], None] | None,
        **shared: Any,
    ) -> list[R]:
        """Return the results for all items in order; a flow run gets a task run for each."""
        if prefect.context.FlowRunContext.get() is None:
            return map_threads(self.plain, items, workers, on_interrupt, **shared)
        first, *_ = inspect.signature(self.plain).parameters
        same = {name: prefect.unmapped(value) for name, value in shared.items()}
        with prefect.task_runners.ThreadPoolTaskRunner(workers) as runner, together():
            futures = runner.map(self, {first: items, **same})
            return all_results({future.wrapped_future: future for future in futures}, on_interrupt)


def task(**options: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Like `prefect.task`, without caching and stored results."""
    return lambda function: Task(function, **options)
