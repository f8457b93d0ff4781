package dir

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"

	"latentbeam/schemas/fault"
)

// replaceBuffer is the size of Replace's write buffer in bytes.
const replaceBuffer = 256 << 10

// Replace atomically replaces the content of name by what write produces: readers see the complete old file or the complete new
// one, and the new one is on disk when Replace returns nil. If write returns an error, the old file stays and the error is
// returned unchanged.
func (d *Dir) Replace(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	dirty, err := d.ensureDir(path.Dir(name))
	if err != nil {
		return err
	}
	t, err := d.createTemp(name)
	if err != nil {
		return err
	}
	if err := t.fill(ctx, write); err != nil {
		t.discard()
		return err
	}
	if err := d.mine(ctx); err != nil {
		t.discard()
		return err
	}
	if err := t.replace(); err != nil {
		t.discard()
		return d.failed("rename", name, err)
	}
	fault.Point(fault.StoreReplaceRenamed)
	touched := map[string]bool{path.Dir(name): true}
	for _, parent := range dirty {
		touched[parent] = true
	}
	if err := d.syncDirs(touched); err != nil {
		return err
	}
	return d.found("replace", name)
}

// fill writes and syncs the new content.
func (t *temp) fill(ctx context.Context, write func(io.Writer) error) error {
	fault.Point(fault.StoreReplaceTempCreated)
	w := bufio.NewWriterSize(t, replaceBuffer)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fault.Point(fault.StoreReplaceTempWritten)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("replace %s: %w", t.final, err)
	}
	if err := t.sync(); err != nil {
		return err
	}
	fault.Point(fault.StoreReplaceTempSynced)
	return nil
}
