package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// alignment of the tensor bytes in a written file, so that a mapped file can be used in place.
const alignment = 64

// Write writes tensors and metadata (may be nil) as a safetensors file. The same input gives the same
// bytes. Tensors with larger elements come first, then by name, so that each begins at a multiple of its
// element size and can be used in place.
func Write(w io.Writer, tensors map[string]Tensor, metadata map[string]string) error {
	names := slices.SortedFunc(maps.Keys(tensors), func(a, b string) int {
		return cmp.Or(cmp.Compare(dtypeSizes[tensors[b].DType], dtypeSizes[tensors[a].DType]), cmp.Compare(a, b))
	})
	header, err := encodeHeader(names, tensors, metadata)
	if err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return fmt.Errorf("write safetensors: header length: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("write safetensors: header: %w", err)
	}
	for _, name := range names {
		if _, err := w.Write(tensors[name].Data); err != nil {
			return fmt.Errorf("write safetensors: tensor %q: %w", name, err)
		}
	}
	return nil
}

// encodeHeader returns the header, padded with spaces to the alignment.
func encodeHeader(names []string, tensors map[string]Tensor, metadata map[string]string) ([]byte, error) {
	type info struct {
		DType   string    `json:"dtype"`
		Shape   []int     `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	all := make(map[string]any, len(names)+1)
	at := uint64(0)
	for _, name := range names {
		t := tensors[name]
		for _, d := range t.Shape {
			if d < 0 {
				return nil, fmt.Errorf("tensor %q: shape %v has a negative axis", name, t.Shape)
			}
		}
		size, err := byteSize(entry{dtype: t.DType, shape: t.Shape})
		switch {
		case err != nil:
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		case size != uint64(len(t.Data)):
			return nil, fmt.Errorf("tensor %q: %d bytes for %s %v, want %d", name, len(t.Data), t.DType, t.Shape, size)
		case name == metadataKey:
			return nil, fmt.Errorf("tensor %q: the name is reserved", name)
		}
		all[name] = info{t.DType, append([]int{}, t.Shape...), [2]uint64{at, at + size}}
		at += size
	}
	if len(metadata) > 0 {
		all[metadataKey] = metadata
	}
	header, err := json.Marshal(all) // map keys come out sorted
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
