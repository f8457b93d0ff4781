package nntest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/stages/weights/safetensors"
)

// MemoryEnv names a directory with space for a checkpoint of published size. Tests of memory are skipped if it is not set.
const MemoryEnv = "LATENTBEAM_MEMORY"

// RandomBF16 writes a component for the length of the test: a directory with a config.json and a file of these tensors as
// random bf16 below 2^-5. It returns the file's size. Values come from one block of noise, so that writing is fast.
func RandomBF16(t testing.TB, config string, shapes map[string][]int) (component string, size int64) {
	t.Helper()
	dir := os.Getenv(MemoryEnv)
	if dir == "" {
		t.Skip("set " + MemoryEnv + " to a directory with room for the weights")
	}
	dir, err := os.MkdirTemp(dir, "weights-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	WriteNoise(t, f, shapes)
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return dir, info.Size()
}

// WriteNoise writes a safetensors file of these tensors with random bf16 below 2^-5.
func WriteNoise(t testing.TB, w io.Writer, shapes map[string][]int) {
	t.Helper()
	const block, shift = 1 << 20, 4098 // tensors start at different offsets of the block
	noise := make([]byte, 2*block)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < block; i += 2 {
		bits := r.Uint32()
		noise[i], noise[i+1] = byte(bits), 0x3c|byte(bits>>8)&0x80
	}
	copy(noise[block:], noise[:block])
	tensors := make([]safetensors.TensorInfo, 0, len(shapes))
	for name, shape := range shapes {
		tensors = append(tensors, safetensors.TensorInfo{Name: name, DType: "BF16", Shape: shape})
	}
	at := 0
	err := safetensors.Stream(w, tensors, nil, func(w io.Writer, t safetensors.TensorInfo) error {
		left, err := t.Bytes()
		for ; left > 0 && err == nil; at = (at + shift) % block {
			n := min(left, block)
			_, err = w.Write(noise[at:][:n])
			left -= n
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Resident is the memory of a process in bytes.
type Resident struct {
	Peak int64 // largest value since ResetPeak
	Anon int64 // now: heap, stacks, arenas
	File int64 // now: mapped files, which the system can evict
}

// ResetPeak resets Peak if the system supports it (Linux).
func ResetPeak(t testing.TB) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("this system tells no peak of the memory in use:", err)
	}
}

// ReadResident returns the memory of this process.
func ReadResident(t testing.TB) (r Resident) {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell the memory in use:", err)
	}
	defer f.Close()
	fields := map[string]*int64{"VmHWM:": &r.Peak, "RssAnon:": &r.Anon, "RssFile:": &r.File}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "\t")
		if field := fields[name]; field != nil {
			var kib int64
			if _, err := fmt.Sscan(value, &kib); err != nil {
				t.Fatalf("%s%s: %v", name, value, err)
			}
			*field = kib << 10
		}
	}
	return r
}
