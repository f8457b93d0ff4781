package kerneltest

import (
	"fmt"
	"hash/fnv"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
)

// Log records the results of one kind of backend during the suite.
type Log struct {
	downloads []uint64
	tests     []string // the line of the suite that read each result
}

// Record runs the suite and records digests of all numbers that it downloads. All NaNs count as equal, whatever their payload.
func Record(t *testing.T, newBackend func(threads int) kernels.Backend) *Log {
	log := &Log{}
	Run(t, func(threads int) kernels.Backend { return &recordingBackend{newBackend(threads), log} })
	return log
}

// Compare fails unless the other kind gave the same bits.
func (l *Log) Compare(t *testing.T, other *Log) {
	t.Helper()
	if len(l.downloads) != len(other.downloads) || len(l.downloads) < 1000 {
		t.Fatalf("%d and %d reads are recorded", len(l.downloads), len(other.downloads))
	}
	if slices.Equal(l.downloads, other.downloads) {
		return
	}
	different := map[string]int{}
	for i, d := range l.downloads {
		if d != other.downloads[i] {
			different[l.tests[i]]++
		}
	}
	t.Errorf("of %d reads some differ in their bits, by lines of the suite: %v", len(l.downloads), different)
}

// recordingBackend is a backend whose downloads are logged.
type recordingBackend struct {
	kernels.Backend
	log *Log
}

// Download logs what it reads.
func (r *recordingBackend) Download(dst []float32, src kernels.Tensor) error {
	err := r.Backend.Download(dst, src)
	h := fnv.New64a()
	for _, x := range dst {
		b := math.Float32bits(x)
		if x != x {
			b = 0x7fc00000
		}
		_, _ = h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	r.log.downloads, r.log.tests = append(r.log.downloads, h.Sum64()), append(r.log.tests, callLines())
	return err
}

// callLines returns the lines of this package on the call stack, outermost last.
func callLines() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var lines []string
	for {
		frame, more := frames.Next()
		if dir, file := filepath.Split(frame.File); filepath.Base(dir) == "kerneltest" {
			lines = append(lines, fmt.Sprint(file, ":", frame.Line))
		}
		if !more {
			return strings.Join(lines, " ")
		}
	}
}
