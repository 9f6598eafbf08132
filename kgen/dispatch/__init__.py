"""The run half of a call: from torch tensors to the launch of a kernel some library holds."""
