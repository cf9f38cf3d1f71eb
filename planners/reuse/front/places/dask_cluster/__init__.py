"""Evaluations on a Dask cluster: the one place that knows Dask."""
