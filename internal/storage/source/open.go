package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/system"
)

// Open opens the file at a location for reading at any offset. An object in a bucket is read in ranges without caching. Errors
// name the location.
func Open(ctx context.Context, at string) (store.Reader, error) {
	if !IsAddress(at) || isWeb(at) {
		return Copy(ctx, at)
	}
	p, err := parse(ctx, at, config.InputSchemes)
	if err != nil {
		return nil, err
	}
	o, err := p.server.Find(ctx, p.key)
	if err != nil {
		return nil, err
	}
	return p.server.Read(ctx, o), nil
}

// Copy opens the file at a location, or a local copy of it, for callers that read all of it more than once.
func Copy(ctx context.Context, at string) (store.Reader, error) {
	switch {
	case at == Stdin:
		return openStdin()
	case !IsAddress(at):
		return openFile(at, func() {})
	}
	c, err := file(ctx, at)
	if err != nil {
		return nil, err
	}
	r, err := openFile(c.Path, c.Release)
	if err != nil {
		c.Release()
		return nil, err
	}
	return r, nil
}

func isWeb(at string) bool { return strings.HasPrefix(at, "http") && IsAddress(at) }

// onDisk makes a store.Reader from a local file.
type onDisk struct {
	*os.File
	size    int64
	release func()
}

// Size implements store.Reader.
func (f *onDisk) Size() int64 { return f.size }

// Close implements store.Reader.
func (f *onDisk) Close() error {
	defer f.release()
	return f.File.Close()
}

// openFile opens a file; release is called when it is closed.
func openFile(path string, release func()) (*onDisk, error) {
	f, err := system.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &onDisk{f, info.Size(), release}, nil
}

// stdin has the content of standard input, in an unlinked file, because a run reads its input several times.
var stdin struct {
	sync.Mutex
	from *os.File // os.Stdin at that time
	file *os.File
	size int64
}

// spooled reads the content of standard input.
type spooled struct {
	io.ReaderAt
	size int64
}

// Size implements store.Reader.
func (s spooled) Size() int64 { return s.size }

// Close implements store.Reader. The content stays until the process ends.
func (spooled) Close() error { return nil }

func openStdin() (store.Reader, error) {
	stdin.Lock()
	defer stdin.Unlock()
	if stdin.from != os.Stdin {
		if err := spoolStdin(); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	}
	return spooled{stdin.file, stdin.size}, nil
}

// spoolStdin reads standard input to its end.
func spoolStdin() error {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return errors.New("it is a terminal, or nothing: pipe the table into this command")
	}
	f, err := os.CreateTemp("", "latentbeam-stdin-")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name())
	n, err := io.Copy(f, os.Stdin)
	if err != nil {
		f.Close()
		return err
	}
	stdin.from, stdin.file, stdin.size = os.Stdin, f, n
	return nil
}
