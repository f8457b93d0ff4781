package dir

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
)

// errNoReplaceUnsupported says that this system or file system cannot rename without replacing.
var errNoReplaceUnsupported = errors.New("rename without replace is not supported")

// renameNew gives the file its final name, or returns fs.ErrExist if the name is taken.
func (t *temp) renameNew() error {
	if err := t.dir.about(Call{Op: OpRename, Name: t.name, To: t.final}); err != nil {
		return err
	}
	err := t.dir.renameNoReplace(path.Dir(t.final), path.Base(t.name), path.Base(t.final))
	if errors.Is(err, errNoReplaceUnsupported) {
		err = t.dir.linkNew(t.name, t.final)
	}
	return err
}

// linkNew is renameNew with a hard link, which never replaces a file. On a file system without hard links (some FUSE mounts) it
// checks that the name is free before the rename; there only the lock on the output separates two writers.
func (d *Dir) linkNew(from, to string) error {
	err := d.root.Link(from, to)
	switch {
	case err == nil:
		d.root.Remove(from) // published; CleanTemps removes a temporary name that stays
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EPERM):
		if _, err := d.root.Lstat(to); err == nil {
			return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
		}
		return d.root.Rename(from, to)
	}
	return err
}

// replace gives the file its final name and replaces an existing file.
func (t *temp) replace() error {
	if err := t.dir.about(Call{Op: OpReplace, Name: t.name, To: t.final}); err != nil {
		return err
	}
	return t.dir.root.Rename(t.name, t.final)
}

// NoReplace returns which call gives a file its final name here, and whether the call never replaces a file. It tries the call,
// first on a free name: for a taken name the kernel may answer itself, although the file system does not support the call.
func (d *Dir) NoReplace() (how string, safe bool) {
	from, to, free := d.tempName("from"), d.tempName("to"), d.tempName("free")
	for _, name := range []string{from, to} {
		if err := d.root.WriteFile(name, nil, fileMode); err != nil {
			return err.Error(), false
		}
		defer d.root.Remove(name)
	}
	defer d.root.Remove(free)
	err := d.renameNoReplace(".", from, free)
	if err == nil {
		err = d.renameNoReplace(".", free, to)
	}
	if errors.Is(err, fs.ErrExist) {
		return "by renameat2", true
	}
	if errors.Is(err, errNoReplaceUnsupported) {
		if err = d.root.Link(from, free); err == nil {
			err = d.root.Link(from, to)
		}
		if errors.Is(err, fs.ErrExist) {
			return "by hard links", true
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
			return "there are neither renameat2 nor hard links, so a writer looks before it renames", false
		}
	}
	if err == nil {
		return "a rename that must not replace replaces", false
	}
	return err.Error(), false
}
