"""Public request traces sent through the runtime, without a model.

traces.py     a file to requests: when, how long, and of what content
content.py    token ids that are equal where the trace says the content is
simulate.py   scheduler, cache and pool driven by a trace, on a clock of their own
sampler.py    how memory is used, step by step
report.py     what came of it, for a program and for a reader
"""
