package safetensors

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"latentbeam/internal/storage/fingerprints"
)

// Other is the content of a file in another format, to be presented as a File.
type Other struct {
	Content  []byte
	Mapped   bool  // Content is mapped memory
	Mark     *Mark // nil: the content is not from a file
	Tensors  []Place
	Metadata map[string]string
	Close    func() error
}

// Mark is the state of a file when it was opened. Its digest is remembered by this state.
type Mark struct{ mark fingerprints.Mark }

// MarkFile returns the mark of a file. Call it before the content is read.
func MarkFile(path string) *Mark { return &Mark{fingerprints.MarkFile(path)} }

// Place is a tensor of an Other and the position of its data.
type Place struct {
	TensorInfo // as stored in the file
	Begin, End uint64
	Packed     *Packed // nil: the data is of DType
}

// Show returns the tensors of o as a File. The caller must have checked that the places are inside the content, do not overlap,
// and have the lengths of their shapes.
func Show(o Other) (*File, error) {
	f := &File{bodies: [][]byte{o.Content}, mapped: o.Mapped, metadata: o.Metadata, unmap: o.Close}
	if f.unmap == nil {
		f.unmap = func() error { return nil }
	}
	if o.Mark != nil {
		f.marks = []fingerprints.Mark{o.Mark.mark}
	}
	for _, t := range o.Tensors {
		f.packed = f.packed || t.Packed != nil
		f.entries = append(f.entries, entry{name: t.Name, dtype: t.DType, shape: t.Shape, begin: t.Begin, end: t.End, packed: t.Packed})
	}
	slices.SortFunc(f.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(f.entries); i++ {
		if name := f.entries[i].name; name == f.entries[i-1].name {
			return nil, fmt.Errorf("tensor %q appears twice", shorten(name))
		}
	}
	f.digest = sync.OnceValue(f.rememberedDigest)
	return f, nil
}
