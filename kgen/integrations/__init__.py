"""kgen inside other engines. Each module imports its engine when it is used, not before."""
