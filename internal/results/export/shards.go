package export

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// shardFileBytes bounds a parquet file of an export.
const shardFileBytes = 256 << 20

// shardsHeld bounds the rows of all open files that are in memory, however many sizes of clips there are.
const shardsHeld = 128 << 20

// shards are parquet files under names with a number, one series for each name. Each series has one open file.
type shards[T schemas.Row] struct {
	out     *out
	options write.Options
	open    map[string]*shard[T]
	held    int // bytes of rows in memory
}

type shard[T schemas.Row] struct {
	number, size int
	file         *os.File
	rows         *write.Writer[T]
}

// add adds a row to the open file of a series, such as "832x480x81/%05d.parquet".
func (f *shards[T]) add(series string, row T) (err error) {
	if f.open == nil {
		f.open = map[string]*shard[T]{}
	}
	to := f.open[series]
	if to == nil {
		to = &shard[T]{}
		f.open[series] = to
	}
	if to.rows == nil {
		path := filepath.Join(f.out.dir, filepath.FromSlash(fmt.Sprintf(series, to.number)))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if to.file, err = os.Create(path); err != nil {
			return err
		}
		to.rows = write.NewWriter[T](to.file, f.options)
	}
	before := to.rows.Held()
	if err := to.rows.Write(row); err != nil {
		return err
	}
	f.held += to.rows.Held() - before
	if to.size += row.ByteSize(); to.size >= shardFileBytes {
		return f.finish(to)
	}
	return f.relieve()
}

// relieve ends the largest row groups early, by name where they are equal, while too much is in memory.
func (f *shards[T]) relieve() error {
	for f.held > shardsHeld {
		var most *shard[T]
		for _, name := range slices.Sorted(maps.Keys(f.open)) {
			if s := f.open[name]; s.rows != nil && (most == nil || s.rows.Held() > most.rows.Held()) {
				most = s
			}
		}
		f.held -= most.rows.Held()
		if err := most.rows.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// finish ends a file; the next row begins another.
func (f *shards[T]) finish(to *shard[T]) error {
	if to.rows == nil {
		return nil
	}
	f.held -= to.rows.Held()
	err := to.rows.Close()
	if n, seekErr := to.file.Seek(0, io.SeekCurrent); seekErr == nil {
		f.out.done.Files++
		f.out.done.Bytes += n
	}
	err = errors.Join(err, to.file.Close())
	to.number, to.size, to.rows, to.file = to.number+1, 0, nil, nil
	return err
}

func (f *shards[T]) close() (err error) {
	for _, to := range f.open {
		err = errors.Join(err, f.finish(to))
	}
	return err
}
