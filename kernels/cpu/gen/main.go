package main

import (
	"fmt"
	"os"
)

// files are the families in the order they are written.
var files = []func() *file{
	gemm512, gemmPairs512, gemm256, gemmAMX, pack512, pack256, spin, peak,
	rows(isa512), rows(isa256), rowsBF16, heads512, softmaxes512, softmaxes256, short512, short256, soft512, soft256, int8s,
}

func main() {
	dir := ".."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	for _, family := range files {
		if err := family().write(dir); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}
