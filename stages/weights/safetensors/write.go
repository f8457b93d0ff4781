package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// alignment of the tensors' data in a written file, so that a mapped file can be used in place.
const alignment = 64

// TensorInfo describes a tensor of a file without its data.
type TensorInfo struct {
	Name  string
	DType string // F32, BF16, ...
	Shape []int
}

// Bytes returns the length of the tensor's data. It returns an error if dtype or shape cannot be written.
func (i TensorInfo) Bytes() (int64, error) {
	for _, d := range i.Shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative axis", i.Shape)
		}
	}
	n, err := byteSize(entry{dtype: i.DType, shape: i.Shape})
	if err == nil && n>>62 != 0 {
		err = fmt.Errorf("shape %v of %s is too large", i.Shape, i.DType)
	}
	return int64(n), err
}

// Write writes tensors and metadata (may be nil) as a safetensors file. The same input gives the same bytes. Tensors are sorted
// by element size, largest first, then by name, so that each starts at a multiple of its element size and can be used in place.
func Write(w io.Writer, tensors map[string]Tensor, metadata map[string]string) error {
	infos := make([]TensorInfo, 0, len(tensors))
	for name, t := range tensors {
		infos = append(infos, TensorInfo{name, t.DType, t.Shape})
	}
	return Stream(w, infos, metadata, func(w io.Writer, t TensorInfo) error {
		_, err := w.Write(tensors[t.Name].Data)
		return err
	})
}

// Stream is Write for tensors whose data need not be in memory. It calls data for each tensor, in the order of the file; data
// must write exactly the tensor's bytes.
func Stream(w io.Writer, tensors []TensorInfo, metadata map[string]string, data func(io.Writer, TensorInfo) error) error {
	tensors = slices.SortedFunc(slices.Values(tensors), func(a, b TensorInfo) int {
		return cmp.Or(cmp.Compare(dtypeSizes[b.DType], dtypeSizes[a.DType]), cmp.Compare(a.Name, b.Name))
	})
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return fmt.Errorf("write safetensors: header length: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("write safetensors: header: %w", err)
	}
	for _, t := range tensors {
		size, _ := t.Bytes() // encodeHeader has checked it
		out := &exact{w: w, left: size}
		err := data(out, t)
		if err == nil && out.left != 0 {
			err = fmt.Errorf("%d bytes too few for %s %v", out.left, t.DType, t.Shape)
		}
		if err != nil {
			return fmt.Errorf("write safetensors: tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// exact returns an error if more than left bytes are written.
type exact struct {
	w    io.Writer
	left int64
}

func (e *exact) Write(p []byte) (int, error) {
	if int64(len(p)) > e.left {
		return 0, fmt.Errorf("%d bytes too many", int64(len(p))-e.left)
	}
	n, err := e.w.Write(p)
	e.left -= int64(n)
	return n, err
}

// encodeHeader returns the header, padded with spaces to the alignment.
func encodeHeader(tensors []TensorInfo, metadata map[string]string) ([]byte, error) {
	type info struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	all := make(map[string]any, len(tensors)+1)
	at := int64(0)
	for _, t := range tensors {
		size, err := t.Bytes()
		switch {
		case err != nil:
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		case t.Name == metadataKey:
			return nil, fmt.Errorf("tensor %q: the name is reserved", t.Name)
		case all[t.Name] != nil:
			return nil, fmt.Errorf("tensor %q is there twice", t.Name)
		case at+size < at:
			return nil, fmt.Errorf("tensor %q: the file is too large", t.Name)
		}
		all[t.Name] = info{t.DType, append([]int{}, t.Shape...), [2]int64{at, at + size}}
		at += size
	}
	if len(metadata) > 0 {
		all[metadataKey] = metadata
	}
	header, err := json.Marshal(all) // map keys are sorted
	if err != nil {
		return nil, err
	}
	for (lengthBytes+len(header))%alignment != 0 {
		header = append(header, ' ')
	}
	if len(header) > maxHeader {
		return nil, fmt.Errorf("header of %d bytes is over the limit of %d", len(header), maxHeader)
	}
	return header, nil
}
