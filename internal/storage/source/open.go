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

// Open opens the file at a location for reads at any offset. An object of a bucket is read in ranges; nothing is kept
// of it. Errors name the location.
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

// Copy opens the file at a location, or a copy of it on this host, for who reads all of it and more than once.
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

// onDisk is a file of this host as a store.Reader.
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

// stdin is what standard input held, in a file without a name. A run reads its input several times.
var stdin struct {
	sync.Mutex
	from *os.File // os.Stdin of that time
	file *os.File
	size int64
}

// spooled is a reader of what standard input held.
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
