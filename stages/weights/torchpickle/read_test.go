package torchpickle

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	tt "latentbeam/stages/weights/torchpickle/torchtest"
)

// TestViews: a view inside a storage has the elements that its strides select, for each element size, also if they are in
// several pieces.
func TestViews(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for class, size := range map[string]int{"ByteStorage": 1, "HalfStorage": 2, "FloatStorage": 4, "DoubleStorage": 8} {
		shape := []int{7, 301, 53}
		n := shape[0] * shape[1] * shape[2]
		data := make([]byte, 2*n*size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		stride := []int{1, 2 * 7, 2 * 7 * 301} // backwards, every second element
		value := one(tt.View(tt.Storage(class, "0", 2*n), 8, shape, stride))
		if _, err := New(tt.Zip(t, tt.Pickle(value), data), ""); err == nil {
			t.Errorf("%s: a view beyond its storage by one element passed", class)
		}
		value = one(tt.View(tt.Storage(class, "0", 2*n), 7, shape, stride))
		d, err := New(tt.Zip(t, tt.Pickle(value), data), "")
		if err != nil {
			t.Fatal(err)
		}
		var want, got bytes.Buffer
		for i := range shape[0] {
			for j := range shape[1] {
				for k := range shape[2] {
					at := (7 + i*stride[0] + j*stride[1] + k*stride[2]) * size
					want.Write(data[at : at+size])
				}
			}
		}
		written, err := d.Tensors["x"].WriteTo(&got)
		if err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) || written != int64(n*size) {
			t.Errorf("%s: the view is not what its strides say (%d of %d bytes, %v)", class, written, n*size, err)
		}
	}
}

// TestSaved: what torchtest writes is read back, so that other tests can rely on it.
func TestSaved(t *testing.T) {
	one := binary.LittleEndian.AppendUint32(nil, 0x3f800000)
	d, err := New(tt.Save(t, tt.Tensor{Name: "a.weight", Storage: "FloatStorage", Shape: []int{1, 1}, Data: one},
		tt.Tensor{Name: "b", Storage: "LongStorage", Shape: nil, Data: make([]byte, 8)}), "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if x := d.Tensors["a.weight"]; x == nil || x.DType != "F32" || len(x.Shape) != 2 || x.Bytes() != 4 {
		t.Fatalf("%+v", x)
	}
	if _, err := d.Tensors["a.weight"].WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), one) {
		t.Errorf("% x, %v", out.Bytes(), err)
	}
}

// seeds are the checkpoints that torch wrote, small hostile ones and their parts.
func seeds(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.pth")
	if err != nil || len(paths) == 0 {
		f.Fatalf("%d seeds, %v", len(paths), err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, list := range [][]hostile{attacks("canary"), bombs, tensors} {
		for _, h := range list {
			if pickle := tt.Pickle(h.value); len(pickle) < 1<<10 {
				f.Add(tt.Zip(f, pickle, make([]byte, 48)))
				f.Add(tt.Legacy(pickle, 4, make([]byte, 48)))
			}
		}
	}
}

// FuzzNew: no content makes New panic, and every tensor of accepted content can be written completely.
func FuzzNew(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, content []byte) { accept(t, content) })
}

// FuzzPickle is FuzzNew for the pickle alone, in an archive with one storage, so that the fuzzer does not spend its time on
// the lengths and lists of the archive.
func FuzzPickle(f *testing.F) {
	for _, list := range [][]hostile{attacks("canary"), bombs, tensors} {
		for _, h := range list {
			if pickle := tt.Pickle(h.value); len(pickle) < 1<<10 {
				f.Add(pickle)
			}
		}
	}
	f.Add(small)
	f.Fuzz(func(t *testing.T, pickle []byte) { accept(t, tt.Zip(t, pickle, make([]byte, 48))) })
}

func accept(t *testing.T, content []byte) {
	d, err := New(content, "")
	if err != nil {
		return
	}
	if len(d.Tensors) == 0 {
		t.Fatal("a state dict without tensors")
	}
	for name, x := range d.Tensors {
		if x.Len() > len(content) {
			t.Fatalf("tensor %q has %d elements in a file of %d bytes", name, x.Len(), len(content))
		}
		var out bytes.Buffer
		if n, err := x.WriteTo(&out); err != nil || n != int64(x.Bytes()) || out.Len() != x.Bytes() {
			t.Fatalf("tensor %q: %d of %d bytes, %v", name, n, x.Bytes(), err)
		}
	}
}
