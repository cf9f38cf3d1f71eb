"""Places where chromosomes are evaluated: this process, other processes, a cluster.

Neither the executors of concurrent.futures nor tasks of Dask's Client do what is needed here:

- Workers tell one another what they learn. News for a worker go with its next part, so the search has
  to know which worker takes which part; an executor gives a task to any worker that is free.
- A worker that dies is replaced, and its parts alone are done again. A ProcessPoolExecutor is broken
  by one dead process, and fails all that it was given.
- A time limit and Ctrl-C end the work within a tick. An executor waits for tasks that run; it can end
  its processes from Python 3.14 on.
- A task of Dask goes through the scheduler, which takes several times the work of an evaluation: parts
  are sent to an actor in each worker instead (`dask_cluster.worker`).

The two kinds of workers share one loop, in `crew`.
"""
