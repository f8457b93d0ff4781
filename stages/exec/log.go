package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Limits for the output of a stage's programs that is stored in one run, in bytes; variables for tests.
var (
	maxLogHead int64 = 4 << 20
	maxLogPart int64 = 4 << 20 // the tail has one to two parts
)

// logFile stores the head and the tail of the programs' output. Lines of the head are appended to the file as they arrive.
// Later lines go to two files beside it in turn; when one is full, the older one is emptied. close appends their content to the
// log. If the process is killed, they stay beside the log. logFile is safe for concurrent use.
type logFile struct {
	mu   sync.Mutex
	name string
	file *os.File
	head int64 // bytes in the head
	tail [2]struct {
		file *os.File // nil: not needed so far
		size int64
	}
	newer int   // the newer file of the tail
	lost  int64 // bytes that were printed but are not stored
}

// openLogFile opens a log for appending.
func openLogFile(name string) (*logFile, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{name: name, file: f}, nil
}

// print adds a line. Write errors are ignored: a full disk must not end a job because of its log.
func (l *logFile) print(format string, args ...any) {
	if l == nil {
		return
	}
	line := fmt.Appendf(nil, format+"\n", args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == 0 && l.tail[0].file == nil && l.head+int64(len(line)) <= maxLogHead {
		n, _ := l.file.Write(line) // a single write appends the line
		l.head += int64(n)
		return
	}
	part := &l.tail[l.newer]
	if part.size+int64(len(line)) > maxLogPart {
		l.newer = 1 - l.newer
		part = &l.tail[l.newer]
		l.lost += part.size
		part.size = 0
		if part.file != nil {
			_, err := part.file.Seek(0, io.SeekStart)
			if err = errors.Join(err, part.file.Truncate(0)); err != nil {
				l.lost += int64(len(line))
				return
			}
		}
	}
	if part.file == nil {
		var err error
		if part.file, err = os.CreateTemp(filepath.Dir(l.name), filepath.Base(l.name)+".tail-*"); err != nil {
			part.file = nil
			l.lost += int64(len(line))
			return
		}
	}
	n, _ := part.file.Write(line)
	part.size += int64(n)
	l.lost += int64(len(line) - n)
}

// close appends the tail to the file. If that fails, the files of the tail stay.
func (l *logFile) close() (err error) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { err = errors.Join(err, l.file.Close()) }()
	if l.lost > 0 {
		if _, err := fmt.Fprintf(l.file, "[... %d bytes are left out: a run keeps the first %d MiB and the last %d to %d ...]\n", l.lost,
			maxLogHead>>20, maxLogPart>>20, 2*maxLogPart>>20); err != nil {
			return err
		}
	}
	for _, i := range []int{1 - l.newer, l.newer} {
		f := l.tail[i].file
		if f == nil {
			continue
		}
		_, err := f.Seek(0, io.SeekStart)
		if err == nil {
			_, err = io.Copy(l.file, f)
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Remove(f.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
