"""The version that a flow is about, found in MLflow; a deployment's run waits for it to answer."""

from __future__ import annotations

from bpeline.flows.running import task
from bpeline.flows.serving import RETRIES
from bpeline.registry.loading import ResolvedVersion, resolve
from bpeline.registry.opening import Registry
from bpeline.registry.records import ByAlias, ByDigest, ByNumber


@task(name="find version", **RETRIES)
def find_version(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion:
    """Find a version.

    Raises:
        UnknownVersion: there is none.
        RegistryUnreachable: MLflow would have to be asked for it.
    """
    return resolve(registry, reference)
