"""Finding a version in MLflow, with retries for the runs of deployments."""

from __future__ import annotations

from bpeline.flows.running import task
from bpeline.flows.serving import RETRIES
from bpeline.registry.loading import ResolvedVersion, resolve
from bpeline.registry.opening import Registry
from bpeline.registry.records import ByAlias, ByDigest, ByNumber


@task(name="find version", **RETRIES)
def find_version(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion:
    """Resolve a reference to a version."""
    return resolve(registry, reference)
