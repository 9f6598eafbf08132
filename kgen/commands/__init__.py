"""The commands of `kgen`, one module each.

A command module has `SUMMARY` (a line), `DETAILS` (what it does, examples, exit codes),
`add_arguments(parser)` and `run(args) -> int`. Importing one is cheap: the rooms it drives are
imported inside `run`, so that `kgen --help` and `kgen check` start at once.
"""
