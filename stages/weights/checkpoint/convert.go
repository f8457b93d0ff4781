package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"latentbeam/internal/system"
	"latentbeam/stages/weights/safetensors"
)

// DefaultShard is the largest size of one file in bytes, as hubs use it.
const DefaultShard = 5_000_000_000

// maxGrowth limits how much larger than its input a conversion may be. Tensors that share a storage are written once each,
// which a hostile file could use to fill the disk.
const maxGrowth = 16

// Options for Convert.
type Options struct {
	Key      string // the state dict of a pickle that has several, such as "model"
	Type     string // round floating-point tensors to this type of Types; "": do not round
	MaxShard int64  // bytes of tensors in one file; a single larger tensor gets a file of its own
	// Names returns new names of tensors by their old names, nil if they do not change. A nil Names renames nothing.
	Names func(tensors []safetensors.TensorInfo) map[string]string
}

// Conversion is the result of Convert.
type Conversion struct {
	From  *Checkpoint // the input; it is closed
	Files []string    // the files; the last is the one to open
	Bytes int64
	// Renamed says that the tensors have other names than in the input.
	Renamed bool
}

// Convert rewrites the checkpoint at in as safetensors. out is the file to write or a directory to write to, "" for the input's
// directory. Files get their names only when all are complete; no existing file is replaced. The same input gives the same
// bytes.
func Convert(in, out string, o Options) (*Conversion, error) {
	to, known := Types[o.Type]
	if o.Type != "" && !known {
		return nil, fmt.Errorf("convert: dtype %q is not known: give f32, bf16 or f16", o.Type)
	}
	if o.MaxShard < 1 {
		return nil, fmt.Errorf("convert: a shard of %d bytes", o.MaxShard)
	}
	in = Snapshot(in)
	c, err := Open(in, o.Key)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if strings.HasPrefix(c.Format, formatSafetensors) && out == "" {
		return nil, fmt.Errorf("convert: %s is safetensors already; name an output to round or divide it", c.File)
	}
	if err := c.checkWritten(); err != nil {
		return nil, fmt.Errorf("convert %w", err)
	}
	renamed, err := c.rename(o.Names)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", c.File, err)
	}
	if err := c.round(to); err != nil {
		return nil, fmt.Errorf("convert %s: %w", c.File, err)
	}
	target := outputPath(c.File, out)
	plan := plan(c.Tensors, target, o.MaxShard)
	r := &Conversion{From: c, Renamed: renamed}
	if r.Files, err = c.write(plan, target); err != nil {
		return nil, fmt.Errorf("convert %s: %w", c.File, err)
	}
	for _, t := range c.Tensors {
		r.Bytes += t.Bytes
	}
	if info, err := os.Stat(in); err == nil && info.IsDir() {
		copied, err := copyBeside(in, filepath.Dir(target))
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", c.File, err)
		}
		r.Files = append(copied, r.Files...)
	}
	return r, nil
}

// maxHoles limits the size of the holes in a sparse file. A sparse file of terabytes costs its author nothing, and its zeros
// would fill the disk.
const maxHoles = 1 << 30

// checkWritten returns an error for files that consist mostly of holes.
func (c *Checkpoint) checkWritten() error {
	for _, file := range c.files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		written, err := system.Written(file)
		if err != nil {
			return err
		}
		if holes := info.Size() - written; holes > maxHoles {
			return fmt.Errorf("%s: it is a sparse file: of its %d bytes %d were never written, as after an incomplete download; "+
				"fetch it again (where the zeros are meant, cp --sparse=never writes them)", file, info.Size(), holes)
		}
	}
	return nil
}

// checkRoom returns an error if the conversion does not fit on the disk.
func (c *Checkpoint) checkRoom(dir string) error {
	need := int64(0)
	for _, t := range c.Tensors {
		need += t.Bytes
	}
	if free, known := system.FreeBytes(dir); known && need > free {
		return fmt.Errorf("its tensors take %d bytes and %d are free in %s: %w", need, free, dir, syscall.ENOSPC)
	}
	return nil
}

// rename applies names to the tensors and reports whether it changed any.
func (c *Checkpoint) rename(names func([]safetensors.TensorInfo) map[string]string) (bool, error) {
	if names == nil {
		return false, nil
	}
	infos := make([]safetensors.TensorInfo, len(c.Tensors))
	for i, t := range c.Tensors {
		infos[i] = t.TensorInfo
	}
	to := names(infos)
	if to == nil {
		return false, nil
	}
	seen := map[string]string{}
	for i := range c.Tensors {
		t := &c.Tensors[i]
		name, ok := to[t.Name]
		if !ok {
			name = t.Name
		}
		if other, twice := seen[name]; twice {
			return false, fmt.Errorf("the tensors %q and %q would both become %q", other, t.Name, name)
		}
		seen[name], t.Name = t.Name, name
	}
	slices.SortFunc(c.Tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return true, nil
}

// round sets the tensors' new type and limits their total size.
func (c *Checkpoint) round(to string) error {
	total := int64(0)
	for i := range c.Tensors {
		t := &c.Tensors[i]
		if err := t.cannotRound(); to != "" && err != nil {
			return err
		}
		if from := t.DType; target(from, to) != from {
			inner := t.write
			t.write = func(w io.Writer) error { return inner(&cast{w: w, from: from, to: to}) }
			t.DType = to
		}
		var err error
		if t.Bytes, err = t.TensorInfo.Bytes(); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if total += t.Bytes; total/maxGrowth > c.Size {
			return fmt.Errorf("its tensors share storages so much that they would become more than %d times the "+
				"%d bytes of the file", maxGrowth, c.Size)
		}
	}
	return nil
}

// cannotRound returns an error if a tensor has numbers of a type that cannot be rounded. Integers that are not weights stay
// unchanged.
func (t Tensor) cannotRound() error {
	quantised := (t.DType == "I8" || t.DType == "U8") && len(t.Shape) > 1 && strings.HasSuffix(t.Name, ".weight")
	if quantised {
		return fmt.Errorf("tensor %q is %s without a scale that is known here (scale_weight, weight_scale): its numbers cannot be decoded; "+
			"take the checkpoint in bf16, or in fp8", t.Name, t.DType)
	}
	if !slices.Contains(floats, t.DType) && (strings.HasPrefix(t.DType, "F") || strings.HasPrefix(t.DType, "C")) {
		return fmt.Errorf("tensor %q is %s, which cannot be rounded here: leave --dtype out, or take the checkpoint in bf16", t.Name, t.DType)
	}
	return nil
}

// outputPath returns the file that an unsharded conversion is written to.
func outputPath(in, out string) string {
	switch {
	case out == "":
		return filepath.Join(filepath.Dir(in), outputName(in))
	case strings.HasSuffix(out, ".safetensors"):
		return out
	}
	return filepath.Join(out, outputName(in))
}

// outFile is one file to write.
type outFile struct {
	path    string
	tensors []Tensor
}

// plan divides the tensors into files of at most most bytes, in the order of their names, and names the files as transformers
// does.
func plan(tensors []Tensor, target string, most int64) []outFile {
	shards := []outFile{{path: target}}
	size := int64(0)
	for _, t := range tensors {
		last := &shards[len(shards)-1]
		if size += t.Bytes; size > most && len(last.tensors) > 0 {
			shards = append(shards, outFile{})
			last, size = &shards[len(shards)-1], t.Bytes
		}
		last.tensors = append(last.tensors, t)
	}
	if len(shards) > 1 {
		stem := strings.TrimSuffix(target, ".safetensors")
		for i := range shards {
			shards[i].path = fmt.Sprintf("%s-%05d-of-%05d.safetensors", stem, i+1, len(shards))
		}
	}
	return shards
}

// write writes all shards, and an index if there are several, and returns their paths.
func (c *Checkpoint) write(shards []outFile, target string) (paths []string, err error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return nil, err
	}
	if err := c.checkRoom(filepath.Dir(target)); err != nil {
		return nil, err
	}
	paths = []string{target, target + safetensors.IndexSuffix}
	for _, shard := range shards {
		paths = append(paths, shard.path)
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s is there already; remove it or name another output", path)
		}
	}
	s := &staging{}
	defer func() { err = errors.Join(err, s.discard()) }()
	index := struct {
		Metadata struct {
			TotalSize int64 `json:"total_size"`
		} `json:"metadata"`
		Map map[string]string `json:"weight_map"`
	}{Map: map[string]string{}}
	for _, shard := range shards {
		infos := make([]safetensors.TensorInfo, len(shard.tensors))
		byName := map[string]Tensor{}
		for i, t := range shard.tensors {
			infos[i], byName[t.Name] = t.TensorInfo, t
			index.Metadata.TotalSize += t.Bytes
			index.Map[t.Name] = filepath.Base(shard.path)
		}
		err := s.add(shard.path, func(w io.Writer) error {
			return safetensors.Stream(c.releasingPages(w), infos, map[string]string{"format": "pt"},
				func(w io.Writer, t safetensors.TensorInfo) error { return byName[t.Name].write(w) })
		})
		if err != nil {
			return nil, err
		}
	}
	if len(shards) > 1 {
		data, err := json.MarshalIndent(index, "", "  ")
		if err != nil {
			return nil, err
		}
		if err := s.add(target+safetensors.IndexSuffix, func(w io.Writer) error {
			_, err := w.Write(append(data, '\n'))
			return err
		}); err != nil {
			return nil, err
		}
	}
	return s.publish()
}
