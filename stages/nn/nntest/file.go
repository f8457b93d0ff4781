package nntest

import (
	"bytes"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// File returns a safetensors file in memory that holds the hashed Weight of each name and shape.
func File(t testing.TB, shapes map[string][]int) *safetensors.File {
	t.Helper()
	return read(t, FileBytes(t, shapes))
}

// FileBytes returns what File reads.
func FileBytes(t testing.TB, shapes map[string][]int) []byte {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		tensors[name] = Tensor(Weight(name, shape...), shape...)
	}
	return write(t, tensors)
}

// Encode returns a safetensors file in memory with the given tensors.
func Encode(t testing.TB, tensors map[string]safetensors.Tensor) *safetensors.File {
	t.Helper()
	return read(t, write(t, tensors))
}

func write(t testing.TB, tensors map[string]safetensors.Tensor) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := safetensors.Write(&buf, tensors, nil); err != nil {
		t.Fatalf("write safetensors: %v", err)
	}
	return buf.Bytes()
}

func read(t testing.TB, data []byte) *safetensors.File {
	t.Helper()
	f, err := safetensors.New(data)
	if err != nil {
		t.Fatalf("read safetensors: %v", err)
	}
	return f
}

// Open maps the safetensors file at path for the length of the test.
func Open(t testing.TB, path string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Tensor returns values as an F32 tensor of a file.
func Tensor(values []float32, shape ...int) safetensors.Tensor {
	return safetensors.Tensor{DType: "F32", Shape: shape, Data: kernels.F32.Bytes(values)}
}

// Floats returns the values of an F32 tensor of a file.
func Floats(t testing.TB, tensor safetensors.Tensor) []float32 {
	t.Helper()
	if tensor.DType != "F32" {
		t.Fatalf("the tensor is %s, want F32", tensor.DType)
	}
	return kernels.F32.Values(tensor.Data)
}
