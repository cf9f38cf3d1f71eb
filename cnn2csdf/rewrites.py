"""The names of all rewrites of a network, in the order in which they are done."""

STEPS = (
    "eliminate-nop",
    "convert-layout",
    "tokens-as-rows",
    "fuse-pad",
    "fuse-bn",
    "fuse-bias",
    "fuse-activation",
)
