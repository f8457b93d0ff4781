package dir

import "io/fs"

// Op is a kind of file-system call that changes a directory.
type Op string

// The calls of Put, Replace, Remove and CleanTemps.
const (
	OpMkdir   Op = "mkdir"   // a directory
	OpCreate  Op = "create"  // an empty temporary file
	OpWrite   Op = "write"   // Data at the end of a temporary file
	OpSync    Op = "sync"    // fsync of a temporary file
	OpRename  Op = "rename"  // Name becomes To, which must not exist
	OpReplace Op = "replace" // Name becomes To, whatever was there
	OpRemove  Op = "remove"  // a file
	OpSyncDir Op = "syncdir" // fsync of a directory
)

// Call is one file-system call that is about to be made. Names are relative to the directory.
type Call struct {
	Op       Op
	Name, To string
	Data     []byte
}

// SetTrace makes f see every changing call before it is made; an error that f returns stands for
// the call's own. Tests use it to check the order of calls and to let each one fail.
// It must be set before the first call and f must be safe for concurrent use.
func (d *Dir) SetTrace(f func(Call) error) { d.trace = f }

// about reports a call to the trace, if there is one.
func (d *Dir) about(c Call) error {
	if d.trace == nil {
		return nil
	}
	if err := d.trace(c); err != nil {
		return &fs.PathError{Op: string(c.Op), Path: c.Name, Err: err}
	}
	return nil
}
