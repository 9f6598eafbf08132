"""The main job, as `kgen demo` and `make run` show it: specs to kernels to text.

check -> expand -> build -> verify -> load a model -> decode with it, stock and on kgen -> compare
"""
