"""What a compiled kernel is made of: disassembly, loops and an instruction census."""
