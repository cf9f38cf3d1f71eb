"""The choice of a place to evaluate: here, in processes of this machine, or on a cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from csdf.errors import CsdfError
from planners.reuse.front.places.evaluation import Place, Serial
from planners.reuse.front.places.process_pool import ProcessPool
from planners.reuse.front.problem import Evaluate


def local_place(evaluate: Evaluate, *, workers: int) -> AbstractContextManager[Place]:
    """Return this process if one worker is enough, else a pool of processes; for a `with`."""
    if workers == 1:
        return nullcontext(Serial(evaluate))
    return ProcessPool(evaluate, workers=workers)


def cluster_place(evaluate: Evaluate, address: str) -> AbstractContextManager[Place]:
    """Return the workers of a Dask scheduler; for a `with`.

    Dask is an extra: what knows it is imported when a cluster is asked for. Raises CsdfError if it is
    not installed, LostWorkers if there is nobody at the address.
    """
    try:
        module = import_module("planners.reuse.front.places.dask_cluster.cluster")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("dask", "distributed"):
            raise
        raise CsdfError(
            f"{address}: a cluster needs dask and distributed: pip install 'csdf[cluster]'"
        ) from None
    place: AbstractContextManager[Place] = module.DaskCluster(evaluate, address)
    return place
