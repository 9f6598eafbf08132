"""The main job, as `kgen demo` and `make run` show it: specs to kernels to text.

check -> expand -> build -> verify -> load a model -> chat in several sessions, stock and on kgen -> compare
"""
