package safetensors

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/system"
)

// Tensor is one tensor of a file.
type Tensor struct {
	DType string // as in the header: F32, BF16, F16, I64, ...
	Shape []int  // slowest axis first; empty for a scalar
	Data  []byte // little-endian, row-major; read-only, valid until the file is closed
	// Packed widens 8-bit tensors; nil: the elements are of DType.
	Packed *Packed
}

// File is an open safetensors file, or the shards of one (OpenIndex). Its methods are safe for concurrent use, except Close,
// which may only be called when no data is in use.
type File struct {
	bodies   [][]byte // the tensors' data, of each shard
	entries  []entry  // sorted by name
	metadata map[string]string
	unmap    func() error
	mapped   bool
	digest   func() string
	packed   bool                // some tensors are widened when they are read
	names    string              // the tensors' old names, for the remembered digest; "": not renamed
	finite   atomic.Bool         // no tensor has an infinity or a NaN; set by digest
	marks    []fingerprints.Mark // state of the files when they were opened
}

// Open maps the file at path into memory and checks it. If the system does not support memory mapping, the file is read
// instead.
func Open(path string) (*File, error) {
	f, err := openShard(path)
	if err != nil {
		return nil, err
	}
	if err := f.pack(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return f, nil
}

// openShard is Open that does not widen 8-bit tensors.
func openShard(path string) (*File, error) {
	mark := fingerprints.MarkFile(path)
	content, unmap, err := system.MapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors: %w", err)
	}
	f, err := newFile(content)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), unmap())
	}
	f.unmap, f.mapped, f.marks = unmap, true, []fingerprints.Mark{mark}
	return f, nil
}

// New checks data, the content of a safetensors file, and returns a File whose tensors point into data.
func New(data []byte) (*File, error) {
	f, err := newFile(data)
	if err != nil {
		return nil, err
	}
	if err := f.pack(); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return f, nil
}

func newFile(data []byte) (*File, error) {
	f := &File{unmap: func() error { return nil }}
	if err := f.parse(data); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f.digest = sync.OnceValue(f.rememberedDigest)
	return f, nil
}

// Names returns the names of all tensors in ascending order.
func (f *File) Names() []string {
	names := make([]string, len(f.entries))
	for i, e := range f.entries {
		names[i] = e.name
	}
	return names
}

// Tensor returns the named tensor; ok is false if the file has none.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	byName := func(e entry, name string) int { return cmp.Compare(e.name, name) }
	i, ok := slices.BinarySearchFunc(f.entries, name, byName)
	if !ok {
		return Tensor{}, false
	}
	e := f.entries[i]
	data := f.bodies[e.shard][e.begin:e.end:e.end]
	return Tensor{DType: e.dtype, Shape: slices.Clone(e.shape), Data: data, Packed: e.packed}, true
}

// Infos describes all tensors, sorted by name. Packed tensors have the type that they are widened to.
func (f *File) Infos() []TensorInfo {
	infos := make([]TensorInfo, len(f.entries))
	for i, e := range f.entries {
		t := Tensor{DType: e.dtype, Packed: e.packed}
		infos[i] = TensorInfo{Name: e.name, DType: t.Type(), Shape: slices.Clone(e.shape)}
	}
	return infos
}

// Mapped reports whether the tensors' data is in mapped files (internal/system).
func (f *File) Mapped() bool { return f.mapped }

// Metadata returns a copy of the header's free-form string pairs; it may be empty.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Digest returns the SHA-256 of all tensors in hexadecimal: names, types, shapes and data, widened if packed. It does not
// depend on the position of tensors in files, so a checkpoint that is converted or divided into shards keeps its digest. The
// first call reads all data. For large files the host remembers the digest as long as the files do not change.
func (f *File) Digest() string { return f.digest() }

// IsFinite reports whether the digest was computed and no tensor has an infinity or a NaN. False means unknown.
func (f *File) IsFinite() bool { return f.finite.Load() }

// digestChunk is how much of a mapped file is in memory at a time while its digest is computed.
const digestChunk = 64 << 20

// rememberedBytes is the size from which a digest is remembered.
const rememberedBytes = 32 << 20

// rememberedDigest returns the digest that an earlier process has computed, or else computes it.
func (f *File) rememberedDigest() string {
	bytes := 0
	for _, b := range f.bodies {
		bytes += len(b)
	}
	if bytes < rememberedBytes || len(f.marks) != len(f.bodies) {
		sha, finite := f.sum()
		f.finite.Store(finite)
		return sha
	}
	tensors := "tensors" // the digest covers the widened data, not the data in the file
	if f.packed {
		tensors = "widened " + tensors
	}
	tensors += f.names
	finites := "finite " + tensors
	id, finiteID := fingerprints.MarksID(tensors, f.marks...), fingerprints.MarksID(finites, f.marks...)
	sha, ofFinite := fingerprints.Host.Recall(id), fingerprints.Host.Recall(finiteID)
	if sha == "" || ofFinite == "" {
		var finite bool
		if sha, finite = f.sum(); finite {
			ofFinite = sha
		} else {
			ofFinite = notFinite
		}
		if fingerprints.MarksID(tensors, f.marks...) != "" {
			fingerprints.Host.Remember(id, sha)
			fingerprints.Host.Remember(finiteID, ofFinite)
		}
	}
	f.finite.Store(ofFinite != notFinite)
	return sha
}

// notFinite is remembered instead of the digest of finite tensors, if not all are finite.
var notFinite = strings.Repeat("0", 2*sha256.Size)

// sum computes the digest: for each tensor in the order of names, the length of a line and the line, then the data, whose
// length follows from the line. finite says that no value is an infinity or a NaN.
func (f *File) sum() (digest string, finite bool) {
	sum := sha256.New()
	finite = true
	for _, e := range f.entries {
		t := Tensor{DType: e.dtype, Shape: e.shape, Packed: e.packed}
		line := fmt.Sprintf("%q %s %v\n", e.name, t.Type(), e.shape)
		fmt.Fprintf(sum, "%d ", len(line))
		sum.Write([]byte(line))
		if e.packed != nil {
			t.Data = f.bodies[e.shard][e.begin:e.end]
			_ = t.EachWidened(func(piece []byte) error { // a hash never fails
				finite = finite && NotFinite(piece, t.Type()) < 0
				_, err := sum.Write(piece)
				return err
			})
			if f.mapped {
				system.ForgetPages(t.Data)
			}
			continue
		}
		for chunk := range slices.Chunk(f.bodies[e.shard][e.begin:e.end], digestChunk) {
			sum.Write(chunk)
			finite = finite && NotFinite(chunk, e.dtype) < 0
			if f.mapped {
				system.ForgetPages(chunk)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), finite
}

// Rename renames tensors by to; other tensors keep their names. Two tensors with the same name are an error.
func (f *File) Rename(to map[string]string) error {
	seen, sum := map[string]string{}, sha256.New()
	for i := range f.entries {
		e := &f.entries[i]
		name, ok := to[e.name]
		if !ok {
			name = e.name
		}
		if other, twice := seen[name]; twice {
			return fmt.Errorf("the tensors %q and %q would both become %q", shorten(other), shorten(e.name), shorten(name))
		}
		fmt.Fprintf(sum, "%q %q\n", e.name, name)
		seen[name], e.name = e.name, name
	}
	slices.SortFunc(f.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	f.names = fmt.Sprintf(" renamed %x", sum.Sum(nil))
	return nil
}

// Close unmaps the file. Every Tensor.Data of the file becomes invalid: reading it afterwards crashes the process. Call Digest
// before Close.
func (f *File) Close() error {
	unmap := f.unmap
	f.entries, f.bodies, f.unmap = nil, nil, func() error { return nil }
	return unmap()
}
