package safetensors

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"latentbeam/internal/storage/fingerprints"
)

// Other is the content of a file of another format, whose tensors are shown as a File.
type Other struct {
	Content  []byte
	Mapped   bool  // Content is mapped memory
	Mark     *Mark // nil: the content is of no file
	Tensors  []Place
	Metadata map[string]string
	Close    func() error
}

// Mark is how a file looked when it was opened, by which its digest is remembered.
type Mark struct{ mark fingerprints.Mark }

// MarkFile returns the mark of a file; it is taken before the content is read.
func MarkFile(path string) *Mark { return &Mark{fingerprints.MarkFile(path)} }

// Place is a tensor of an Other and where its bytes are.
type Place struct {
	TensorInfo // of what the file holds
	Begin, End uint64
	Packed     *Packed // nil: the bytes are of DType
}

// Show returns the tensors of o as a File. o has been checked: the places lie in the content and do not overlap, and their lengths
// are those of their shapes.
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
	f.digest = sync.OnceValue(f.recalled)
	return f, nil
}
