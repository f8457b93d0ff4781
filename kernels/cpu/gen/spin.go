package main

// spin writes the pause for loops that wait for another processor.
func spin() *file {
	f := newFile("spin")
	f.fn("pause", "n uint32", 4, "executes PAUSE n times.")
	f.p("MOVL n+0(FP), CX")
	f.at("loop")
	f.p("PAUSE\nDECL CX\nJNZ loop\nRET")
	return f
}
