"""The memory planner: networks in, plans out; groups, stages and modes are moves of a search."""
