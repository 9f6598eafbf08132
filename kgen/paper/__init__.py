"""What paging and prefix caching save, as figures that the runtime itself produces.

contiguous.py   memory as systems before paging had it: one region a request
reservation.py  a queue of requests through such memory
paging.py       the same queue through the scheduler
hashing.py      a prefix cache of hashed blocks, to compare with
claims.py       single published figures, and what comes out here
figures.py      all of it, for a program
table.py        and for a reader
"""
