package simulator

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/dir/dirtest"
)

// directory is an output on a file system that can lose power: what was not synced may be gone.
type directory struct {
	path   string        // of the files as they are
	power  *dirtest.Disk // what of them survives; guarded by world.mu
	reboot int
}

// makeDirectory gives a third of the jobs a directory instead of a bucket. The result removes it.
func (w *world) makeDirectory(t *testing.T) (remove func()) {
	if w.roll("directory") > 0.35 {
		return func() {}
	}
	above := "/dev/shm" // thousands of jobs sync a million times
	if _, err := os.Stat(above); err != nil {
		above = ""
	}
	path, err := os.MkdirTemp(above, "latentbeam-simulator-")
	if err != nil {
		t.Fatal(err)
	}
	w.directory = &directory{path: path, power: dirtest.New(nil)}
	return func() { os.RemoveAll(path) }
}

// root is where the files are since the last power cut.
func (d *directory) root() string { return filepath.Join(d.path, fmt.Sprint(d.reboot)) }

// cutPower lets the directory lose what was not synced, or a part of that. All processes are dead.
func (w *world) cutPower(chance float64) {
	if w.directory == nil {
		return
	}
	survival := dirtest.Survival(dirtest.None)
	if chance > 0.2 {
		survival = dirtest.Coins(w.seed + uint64(w.reboot))
	}
	files := w.power.Reboot(survival)
	w.log("the power is cut, %d files are left", len(files))
	w.power = dirtest.New(files)
	w.reboot++
	for name, data := range files {
		at := filepath.Join(w.root(), filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, data, 0o644)
		}
		if err != nil {
			panic(err)
		}
	}
}

// open opens the output.
func (d *disk) open() (store.Store, error) {
	if d.directory == nil {
		return bucket.New(d, bucket.Address{Scheme: "sim", Bucket: "b", Prefix: "out"}, bucket.Options{Clock: clock{d}}), nil
	}
	s, err := dir.Open(d.root())
	if err == nil {
		s.SetTrace(d.change)
	}
	return s, err
}

// change is a call that is about to change the directory. It takes a while, and may fail.
func (d *disk) change(c dir.Call) error {
	if d.isDead() {
		return errDead
	}
	what := fmt.Sprint(d.name, " ", c.Op)
	drawn := d.dice("fate", what)
	select {
	case <-time.After(time.Duration(1e5 + 4e6*d.dice("time", what))):
	case <-d.dead:
		if drawn < 0.5 { // the call was on its way
			return errDead
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case drawn < d.trouble.get()/300:
		d.log("%s %s %s: EIO", d.name, c.Op, c.Name)
		return syscall.EIO
	case drawn < d.trouble.get()/100:
		d.log("%s %s %s: no space", d.name, c.Op, c.Name)
		return syscall.ENOSPC
	}
	d.power.Do(c)
	return nil
}
