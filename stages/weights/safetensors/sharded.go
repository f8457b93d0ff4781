package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"latentbeam/internal/system"
)

// OpenIndex opens the shards in the index at path as one File. Index and shards must agree: each tensor is in the shard that
// the index names, and in no other.
func OpenIndex(path string) (*File, error) {
	files, err := ReadIndex(path)
	if err != nil {
		return nil, err
	}
	shards := slices.Sorted(maps.Keys(invert(files)))
	f := &File{metadata: map[string]string{}, unmap: func() error { return nil }, mapped: true}
	for i, name := range shards {
		shard, err := openShard(filepath.Join(filepath.Dir(path), name))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("shard %s is missing beside its index %s (%d shards)", name, path, len(shards))
		}
		if err == nil {
			err = f.adopt(shard, i, name, files)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := f.complete(files, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.pack(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	f.digest = sync.OnceValue(f.rememberedDigest)
	return f, nil
}

// ReadIndex reads an index file, see ParseIndex.
func ReadIndex(path string) (map[string]string, error) {
	data, err := system.ReadRegular(path, maxIndex)
	if err != nil {
		return nil, fmt.Errorf("open index of shards: %w", err)
	}
	files, err := ParseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return files, nil
}

// invert returns the tensors of each file.
func invert(files map[string]string) map[string][]string {
	out := map[string][]string{}
	for name, file := range files {
		out[file] = append(out[file], name)
	}
	return out
}

// adopt moves the tensors of shard i with the given name to f. Closing f closes the shard too.
func (f *File) adopt(shard *File, i int, name string, files map[string]string) error {
	rest := f.unmap
	f.unmap = func() error { return errors.Join(rest(), shard.Close()) }
	f.bodies = append(f.bodies, shard.bodies[0])
	f.marks = append(f.marks, shard.marks...)
	maps.Copy(f.metadata, shard.metadata)
	for _, e := range shard.entries {
		switch file, listed := files[e.name]; {
		case !listed:
			return fmt.Errorf("shard %s holds tensor %q, which the index does not list", name, shorten(e.name))
		case file != name:
			return fmt.Errorf("tensor %q is in two shards, %s and %s", shorten(e.name), file, name)
		}
		e.shard = i
		f.entries = append(f.entries, e)
	}
	return nil
}

// complete sorts the tensors of all shards and checks that none is missing.
func (f *File) complete(files map[string]string, path string) error {
	slices.SortFunc(f.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	if len(f.entries) == len(files) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, ok := f.Tensor(name); !ok {
			return fmt.Errorf("index %s says that tensor %q is in shard %s, which does not hold it",
				path, shorten(name), files[name])
		}
	}
	return nil
}
