// Package torchtest writes PyTorch checkpoints for tests, valid and hostile ones: pickles, and the two formats of torch.save.
// Only tests import it. To add a kind of value, add a function in pickle.go.
package torchtest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// Tensor is one contiguous tensor of a state dict.
type Tensor struct {
	Name    string
	Storage string // class in torch, such as FloatStorage
	Shape   []int
	Data    []byte // little-endian, row-major
}

// Save returns what torch.save writes for a state dict: a zip archive with one storage for each tensor.
func Save(t testing.TB, tensors ...Tensor) []byte {
	var storages [][]byte
	for _, x := range tensors {
		storages = append(storages, x.Data)
	}
	return Zip(t, Pickle(StateDict(tensors...)), storages...)
}

// Zip returns the archive of a pickle and its storages, which are named 0, 1, 2 and so on.
func Zip(t testing.TB, pickle []byte, storages ...[]byte) []byte {
	names, files := []string{"data.pkl", "byteorder", "version"}, [][]byte{pickle, []byte("little"), []byte("3\n")}
	for i, s := range storages {
		names, files = append(names, fmt.Sprintf("data/%d", i)), append(files, s)
	}
	return Archive(t, "archive/", names, files)
}

// Archive returns a zip archive of stored files, whose names get the prefix.
func Archive(t testing.TB, prefix string, names []string, files [][]byte) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i, name := range names {
		f, err := w.CreateHeader(&zip.FileHeader{Name: prefix + name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Legacy returns the format of torch before 1.6: pickle, then a list of storages, then for each storage its number of elements,
// of the given size, and its data.
func Legacy(pickle []byte, size int, storages ...[]byte) []byte {
	out := []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")
	out = append(out, Pickle(Int(1001))...)
	out = append(out, Pickle(Dict(Text("little_endian"), True))...)
	out = append(out, pickle...)
	var keys []string
	for i := range storages {
		keys = append(keys, Text(fmt.Sprint(i)))
	}
	out = append(out, Pickle(List(keys...))...)
	for _, s := range storages {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(s)/size))
		out = append(out, s...)
	}
	return out
}
