"""The names of the rewrites of `cnn2csdf.simplify` in their order, for options of commands."""

REWRITE_NAMES = (
    "eliminate-nop",
    "convert-layout",
    "tokens-as-rows",
    "moves-as-views",
    "fuse-pad",
    "fuse-bn",
    "fuse-bias",
    "fuse-activation",
)
