package weights

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"latentbeam/internal/system"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/weights/safetensors"
)

// TestDroppedBlocks: a block that was read ahead is no longer counted in system.BesideHeap after its model is dropped.
func TestDroppedBlocks(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	const bound, rows, columns = 4 << 30, 512, 1024
	before := debug.SetMemoryLimit(-1)
	system.BoundHeap(bound)
	defer func() {
		system.BoundHeap(math.MaxInt64)
		debug.SetMemoryLimit(before)
	}()
	untilNoneCounts := func(when string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); debug.SetMemoryLimit(-1) != bound; runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%d bytes count beside the heap %s", bound-debug.SetMemoryLimit(-1), when)
			}
			time.Sleep(time.Millisecond)
		}
	}
	untilNoneCounts("after the tests before") // which may have left blocks that are not collected yet
	func() {
		tensors := map[string]safetensors.Tensor{}
		for i := range 3 {
			tensors[fmt.Sprintf("blocks.%d.weight", i)] = safetensors.Tensor{DType: "F32", Shape: []int{rows, columns},
				Data: make([]byte, 4*rows*columns)}
		}
		var file bytes.Buffer
		if err := safetensors.Write(&file, tensors, nil); err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.New(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		be := cpu.New(1)
		w := NewWeights(be, f).As(kernels.BF16)
		w.account.flow = newFlow(be, 0)
		run := w.Blocks(3, "blocks.%d")
		for i := range 3 {
			w.Block(i, "blocks.%d").Tensor("weight", rows, columns)
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		for range w.Flow().Each(run) {
		}
		if got := bound - debug.SetMemoryLimit(-1); got != 2*rows*columns { // the first, for the next pass
			t.Errorf("%d bytes count beside the heap after a pass, want those of one block, %d", got, 2*rows*columns)
		}
	}()
	untilNoneCounts("after the model is gone")
}
