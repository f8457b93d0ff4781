package runfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Files with the rows that the workers of an engine should compute: an object with all rows, divided into blocks, and a list
// of the blocks.
const (
	rowsFile   = "rows"
	blocksFile = "rows.json"
)

// Block is a part of the rows of a job.
type Block struct {
	Offset int64 `json:"offset"` // in bytes
	Length int64 `json:"length"` // in bytes
}

// WriteRows writes the rows of a job. write calls add for each block.
func (j Folder) WriteRows(ctx context.Context, write func(add func(block []byte) error) error) error {
	blocks := []Block{}
	err := j.Store.Replace(ctx, j.name(rowsFile), func(w io.Writer) error {
		var at int64
		return write(func(block []byte) error {
			if _, err := w.Write(block); err != nil {
				return err
			}
			blocks = append(blocks, Block{at, int64(len(block))})
			at += int64(len(block))
			return nil
		})
	})
	if err != nil {
		return err
	}
	return j.replace(ctx, blocksFile, blocks)
}

// Blocks returns the list of the job's blocks.
func (j Folder) Blocks(ctx context.Context) (blocks []Block, err error) {
	return blocks, j.explainMissing(j.read(ctx, blocksFile, &blocks))
}

// OpenRows opens the object with the rows of the job.
func (j Folder) OpenRows(ctx context.Context) (store.Reader, error) {
	r, err := j.Store.Open(ctx, j.name(rowsFile))
	return r, j.explainMissing(err)
}

// explainMissing explains fs.ErrNotExist for files of rows. It returns other errors unchanged.
func (j Folder) explainMissing(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fault.TryAgain(fmt.Errorf("the rows of job %s are not in %s: it has ended, or this host does not see the output of the "+
		"process that submitted it (%w)", j.ID, j.Store.URL(), err))
}

// Read reads the block from r, which OpenRows returned.
func (b Block) Read(r store.Reader) ([]byte, error) {
	if b.Offset < 0 || b.Length < 0 || b.Offset > r.Size() || b.Length > r.Size()-b.Offset {
		return nil, fmt.Errorf("a block of %d bytes at %d does not lie in the rows of the job, which have %d bytes: they were damaged, "+
			"run again", b.Length, b.Offset, r.Size())
	}
	data := make([]byte, b.Length)
	if n, err := r.ReadAt(data, b.Offset); n < len(data) {
		return nil, err
	}
	return data, nil
}

// RemoveRows removes the files with the rows of a job that has ended.
func (j Folder) RemoveRows(ctx context.Context) error {
	var failed error
	for _, file := range []string{rowsFile, blocksFile} {
		if err := j.Store.Remove(ctx, j.name(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
