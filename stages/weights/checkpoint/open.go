package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/system"
	"latentbeam/stages/weights/gguf"
	"latentbeam/stages/weights/safetensors"
	"latentbeam/stages/weights/torchpickle"
)

// Checkpoint is the tensors of one model on disk. Close it when its tensors are no longer used.
type Checkpoint struct {
	File    string   // the opened file, or the index of its shards
	Format  string   // for people, such as "safetensors in 2 shards"
	Size    int64    // bytes of all its files
	Tensors []Tensor // by name
	Key     string   // of a pickle: the entry with the tensors, such as "ema"; "": the whole
	Skipped []string // other content of a pickle, for people
	// Metadata is the metadata of a GGUF (gguf.Architecture, gguf.Tokenizer).
	Metadata map[string]string
	files    []string // files with the tensors
	mapped   [][]byte // whole files
	close    []func() error
}

// Tensor is a tensor of a Checkpoint.
type Tensor struct {
	safetensors.TensorInfo
	Stored string // type in the file: DType, or an 8-bit type that is widened to DType
	Bytes  int64  // size as DType
	// write writes the data, little-endian and row-major, in pieces of whole elements.
	write func(io.Writer) error
}

// Pickle reports whether the checkpoint is a pickle. Jobs refuse pickles.
func (c *Checkpoint) Pickle() bool { return strings.HasPrefix(c.Format, formatPickle) }

const (
	formatSafetensors = "safetensors"
	formatGGUF        = "GGUF"
	formatPickle      = "PyTorch pickle"
)

// OpenWeights opens the weights in the file at path: safetensors, the index of its shards, or GGUF.
func OpenWeights(path string) (*safetensors.File, error) {
	switch {
	case safetensors.IsIndex(path):
		return safetensors.OpenIndex(path)
	case filepath.Ext(path) == GGUF:
		return gguf.Open(path)
	}
	return safetensors.Open(path)
}

// Open lists the tensors of the checkpoint at path: a safetensors file, a GGUF, a pickle, an index of shards, or a directory
// with one of them. key selects the state dict in a pickle that has several.
func Open(path, key string) (*Checkpoint, error) {
	path = Snapshot(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w; give a file of weights, a directory with one, or tiny", err)
	}
	if info.IsDir() {
		name, err := findAny(system.RegularFS(path))
		if err != nil {
			return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
		}
		path = filepath.Join(path, name)
	}
	c := &Checkpoint{File: path}
	if safetensors.IsIndex(path) {
		err = c.openIndex(path, key)
	} else {
		err = c.openFile(path, key)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	slices.SortFunc(c.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// releasingPages returns a writer that from time to time releases the pages of c's files, so that a conversion does not seem to
// hold the whole checkpoint in memory.
func (c *Checkpoint) releasingPages(w io.Writer) io.Writer { return &pageReleaser{w: w, of: c} }

type pageReleaser struct {
	w    io.Writer
	of   *Checkpoint
	read int // bytes since the last release
}

func (d *pageReleaser) Write(p []byte) (int, error) {
	const often = 64 << 20
	if d.read += len(p); d.read > often {
		d.read = 0
		for _, content := range d.of.mapped {
			if err := system.DropPages(content); err != nil {
				return 0, err
			}
		}
	}
	return d.w.Write(p)
}

// Close closes the files.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.close {
		errs = append(errs, f())
	}
	c.close = nil
	return errors.Join(errs...)
}

func (c *Checkpoint) openFile(path, key string) error {
	content, unmap, err := system.MapFile(path)
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	c.close, c.mapped, c.Size = append(c.close, unmap), append(c.mapped, content), int64(len(content))
	c.files = append(c.files, path)
	var f *safetensors.File
	switch {
	case torchpickle.Is(content):
		c.Format = formatPickle
		err = c.addPickle(content, key)
	case gguf.Is(content):
		if f, err = gguf.New(content); err == nil {
			c.Format, c.Metadata = formatGGUF, f.Metadata()
			if of := c.Metadata[gguf.Architecture]; of != "" {
				c.Format = fmt.Sprintf("%s of architecture %q", formatGGUF, of)
			}
			c.addWeights(f)
		}
	default:
		c.Format = formatSafetensors
		if f, err = safetensors.New(content); err == nil {
			c.addWeights(f)
		}
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return nil
}

func (c *Checkpoint) addWeights(f *safetensors.File) {
	for _, info := range f.Infos() {
		t, _ := f.Tensor(info.Name)
		one := Tensor{TensorInfo: info, Stored: t.Stored(), write: func(w io.Writer) error { return writeChunks(w, t.Data) }}
		if t.Packed != nil {
			one.write = func(w io.Writer) error {
				return t.EachWidened(func(piece []byte) error { _, err := w.Write(piece); return err })
			}
		}
		one.Bytes, _ = info.Bytes() // the file was checked before
		c.Tensors = append(c.Tensors, one)
	}
}

// writeChunks writes data in pieces of whole elements of any type.
func writeChunks(w io.Writer, data []byte) error {
	const size = 256 << 10
	for chunk := range slices.Chunk(data, size) {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpoint) addPickle(content []byte, key string) error {
	d, err := torchpickle.New(content, key)
	if err != nil {
		return err
	}
	c.Key = d.Key
	c.Skipped = append(c.Skipped, d.Skipped...)
	for name, t := range d.Tensors {
		info := safetensors.TensorInfo{Name: name, DType: t.DType, Shape: t.Shape}
		c.Tensors = append(c.Tensors, Tensor{TensorInfo: info, Stored: t.DType, Bytes: int64(t.Bytes()), write: func(w io.Writer) error {
			_, err := t.WriteTo(w)
			return err
		}})
	}
	return nil
}

// openIndex opens all shards of an index, of safetensors or of pickles.
func (c *Checkpoint) openIndex(path, key string) error {
	files, err := safetensors.ReadIndex(path)
	if err != nil {
		return err
	}
	unique := map[string]bool{}
	for _, file := range files {
		unique[file] = true
	}
	var shards []string
	for _, name := range slices.Sorted(maps.Keys(unique)) {
		shards = append(shards, filepath.Join(filepath.Dir(path), name))
	}
	if !IsPickleName(shards[0]) {
		f, err := safetensors.OpenIndex(path)
		if err != nil {
			return err
		}
		c.Format = fmt.Sprintf("%s in %d shards", formatSafetensors, len(shards))
		c.close = append(c.close, f.Close)
		c.addWeights(f)
		for _, shard := range shards {
			info, err := os.Stat(shard)
			if err != nil {
				return err
			}
			c.Size += info.Size()
		}
		c.files = shards
		return nil
	}
	c.Format = fmt.Sprintf("%s in %d shards", formatPickle, len(shards))
	return c.addPickles(shards, files, key)
}

// addPickles opens the shards of an index of pickles. They must agree with the index.
func (c *Checkpoint) addPickles(shards []string, files map[string]string, key string) error {
	for _, shard := range shards {
		part := &Checkpoint{}
		err := part.openFile(shard, key)
		c.close, c.mapped = append(c.close, part.close...), append(c.mapped, part.mapped...)
		c.files = append(c.files, part.files...)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("shard %s is missing beside its index: %w", filepath.Base(shard), err)
		}
		if err != nil {
			return err
		}
		for _, t := range part.Tensors {
			if files[t.Name] != filepath.Base(shard) {
				return fmt.Errorf("shard %s holds tensor %q, which the index does not list", shard, t.Name)
			}
		}
		c.Tensors = append(c.Tensors, part.Tensors...)
		c.Skipped = append(c.Skipped, part.Skipped...)
		c.Size += part.Size
	}
	if len(c.Tensors) != len(files) {
		return fmt.Errorf("the index lists %d tensors, its shards hold %d", len(files), len(c.Tensors))
	}
	return nil
}
