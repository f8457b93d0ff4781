package system

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenRegular opens a regular file for reading. It returns an error for anything else, without opening it: opening a FIFO would wait
// for a writer, and reading a device may never end.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0) // the path may be another file by now, so the mode is checked again
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// ReadRegular reads a regular file of at most most bytes. A larger file is an error.
func ReadRegular(path string, most int64) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, path, most)
}

// ReadFileOf is like ReadRegular for a file in files.
func ReadFileOf(files fs.FS, name string, most int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, name, most)
}

func readAtMost(f fs.File, path string, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	if info.Size() > most { // a sparse file can have any size without needing the disk space
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), most)}
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // the file was truncated meanwhile
		err = nil
	}
	return data[:n], err
}

// checkRegular returns an error if info is not a regular file.
func checkRegular(path string, info fs.FileInfo) error {
	if kind := FileKind(info.Mode()); kind != "" {
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, not a regular file", kind)}
	}
	return nil
}

// FileKind describes a file that is not regular, such as "a folder"; "" for a regular file.
func FileKind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return ""
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else" // such as a symbolic link from Lstat
}

// RegularFS returns the files below dir. Opening a file that is not regular is an error.
func RegularFS(dir string) fs.FS { return regularFS{os.DirFS(dir), dir} }

type regularFS struct {
	fs.FS
	dir string
}

// Open implements fs.FS.
func (r regularFS) Open(name string) (fs.File, error) {
	if info, err := fs.Stat(r.FS, name); err != nil || info.IsDir() {
		return r.FS.Open(name)
	}
	return OpenRegular(filepath.Join(r.dir, filepath.FromSlash(name)))
}

// Stat implements fs.StatFS.
func (r regularFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(r.FS, name) }

// ReadDir implements fs.ReadDirFS.
func (r regularFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.FS, name) }

// ReplaceFile writes a file of mode 0644 atomically: a reader sees the old content or the new one, whole. It makes the folder if
// there is none. A power cut may undo it, because nothing is synced: it is for what can be made again.
func ReplaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
