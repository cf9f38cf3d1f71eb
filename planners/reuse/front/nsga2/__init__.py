"""The published evolution: NSGA-II with an archive, and its state in a file.

Our own implementation rather than pymoo's, because scores decide exactly here: domination compares
integers and fractions, and pymoo keeps objectives as arrays of floats. It would replace `domination`
and `variation` only, some 220 lines. The archive, chromosomes that are never evaluated twice, and
states from which a search goes on to the same front would stay ours, with one more dependency.
"""
