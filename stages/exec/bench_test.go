package exec

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/exec/exectest"
)

// BenchmarkRow measures a batch of one row. The program itself takes little of the time: it writes a small file.
func BenchmarkRow(b *testing.B) { bench(b, "prompt", "prompt", nil) }

// BenchmarkTensor8MB sends 8 MiB of latents to the program and back: four copies, one of them made by the program.
func BenchmarkTensor8MB(b *testing.B) {
	bench(b, "latents", "latents", stages.NewArray(16, 8, 128, 128))
}

func bench(b *testing.B, takes, gives string, latents *stages.Array) {
	o, err := configOptions(exectest.Options(takes, gives, b.TempDir(), ""))
	if err != nil {
		b.Fatal(err)
	}
	s, err := open(nil, o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Capabilities().Close()
	dev := device{cpu.New(1), ""}
	one := func(i int) {
		e := element("a")
		e.Key, e.Latents = sha256.Sum256(fmt.Append(nil, i)), latents
		if err := s.Run(b.Context(), dev, []*stages.Element{e}); err != nil || e.Failed != nil {
			b.Fatal(err, e.Failed)
		}
	}
	one(0)
	if latents != nil {
		b.SetBytes(2 * 4 * int64(len(latents.Data))) // there and back
	}
	for i := 1; b.Loop(); i++ {
		one(i)
	}
}
