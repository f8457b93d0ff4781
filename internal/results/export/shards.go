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

// shardFileBytes limits the size of a parquet file of an export.
const shardFileBytes = 256 << 20

// maxBuffered limits the bytes of buffered rows of all open files together, however many sizes of clips there are.
const maxBuffered = 128 << 20

// shards writes several series of numbered parquet files. Each series has one open file.
type shards[T schemas.Row] struct {
	out      *out
	options  write.Options
	open     map[string]*shard[T] // by series
	buffered int                  // bytes of buffered rows
}

// shard is the current file of a series.
type shard[T schemas.Row] struct {
	number, size int
	file         *parquetFile[T] // nil: the next row creates it
}

// parquetFile is a parquet file of an export that is written row by row.
type parquetFile[T schemas.Row] struct {
	out  *out
	file *os.File
	rows *write.Writer[T]
}

// describe adds the statistics of the first row's latents to the metadata of the files. The latents are in space.
func (f *shards[T]) describe(s *sample, space string) (err error) {
	if f.options.Metadata == nil {
		f.options.Metadata, err = f.out.metadata(s, space)
	}
	return err
}

// createParquet creates a parquet file.
func createParquet[T schemas.Row](o *out, name string, options write.Options) (*parquetFile[T], error) {
	path := filepath.Join(o.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &parquetFile[T]{o, file, write.NewWriter[T](file, options)}, nil
}

// close closes the file and counts it.
func (f *parquetFile[T]) close() error {
	err := f.rows.Close()
	if n, seekErr := f.file.Seek(0, io.SeekCurrent); seekErr == nil {
		f.out.done.Files++
		f.out.done.Bytes += n
	}
	return errors.Join(err, f.file.Close())
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
	if to.file == nil {
		if to.file, err = createParquet[T](f.out, fmt.Sprintf(series, to.number), f.options); err != nil {
			return err
		}
	}
	before := to.file.rows.Held()
	if err := to.file.rows.Write(row); err != nil {
		return err
	}
	f.buffered += to.file.rows.Held() - before
	if to.size += row.ByteSize(); to.size >= shardFileBytes {
		return f.finish(to)
	}
	return f.flushLargest()
}

// flushLargest flushes the largest row groups early, while more than maxBuffered is buffered. Of groups of equal size, it flushes the
// first by name, so that equal rows give equal files.
func (f *shards[T]) flushLargest() error {
	for f.buffered > maxBuffered {
		var largest *shard[T]
		for _, name := range slices.Sorted(maps.Keys(f.open)) {
			if s := f.open[name]; s.file != nil && (largest == nil || s.file.rows.Held() > largest.file.rows.Held()) {
				largest = s
			}
		}
		f.buffered -= largest.file.rows.Held()
		if err := largest.file.rows.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// finish closes the file of a series. The next row creates another.
func (f *shards[T]) finish(to *shard[T]) error {
	if to.file == nil {
		return nil
	}
	f.buffered -= to.file.rows.Held()
	err := to.file.close()
	to.number, to.size, to.file = to.number+1, 0, nil
	return err
}

func (f *shards[T]) close() (err error) {
	for _, to := range f.open {
		err = errors.Join(err, f.finish(to))
	}
	return err
}
