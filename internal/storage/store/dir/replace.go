package dir

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"

	"latentbeam/schemas/fault"
)

// replaceBuffer gathers small writes of Replace, in bytes.
const replaceBuffer = 256 << 10

// Replace gives name the content that write produces, atomically: readers see the old file or the
// new one, whole, and the new one is on disk when Replace returns nil. An error of write leaves
// the old file as it was and is returned as it is.
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
