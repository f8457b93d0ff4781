package dir

import "io/fs"

// Op is a kind of file-system call that changes a directory.
type Op string

// The calls of Put, Replace, Remove and CleanTemps.
const (
	OpMkdir   Op = "mkdir"   // create a directory
	OpCreate  Op = "create"  // create an empty temporary file
	OpWrite   Op = "write"   // append Data to a temporary file
	OpSync    Op = "sync"    // fsync a temporary file
	OpRename  Op = "rename"  // rename Name to To, which must not exist
	OpReplace Op = "replace" // rename Name to To, replacing it
	OpRemove  Op = "remove"  // remove a file
	OpSyncDir Op = "syncdir" // fsync a directory
)

// Call is a file-system call that is about to be made. Names are relative to the directory.
type Call struct {
	Op       Op
	Name, To string
	Data     []byte
}

// SetTrace makes f see every changing call before it is made. If f returns an error, the call fails with it. Tests use it to
// check the order of calls and to let each call fail. It must be set before the first call, and f must be safe for concurrent
// use.
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
