package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"latentbeam/internal/media"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/system"
	"latentbeam/schemas/fault"
)

// Member is a media file inside another file: a range of a tar, or a cell of a parquet file. String returns its location.
type Member struct {
	File         string // location of the tar or the parquet file
	Offset, Size int64  // in a tar: the position of the content
	Row          int64  // in a parquet file, from 0
	Column       string // "": the member of a tar
	Name         string // its name in the file
}

var memberForm = regexp.MustCompile(`(?s)^(.+?)#(\d{1,18})(?:\+(\d{1,18})|@([^/]+))/(.+)$`)

// ParseMember parses the result of String.
func ParseMember(at string) (m Member, ok bool) {
	parts := memberForm.FindStringSubmatch(at)
	if parts == nil {
		return Member{}, false
	}
	m = Member{File: parts[1], Name: parts[5]}
	number, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Member{}, false
	}
	if parts[3] == "" {
		m.Row = number
		m.Column, err = url.PathUnescape(parts[4])
		return m, err == nil
	}
	m.Offset = number
	m.Size, err = strconv.ParseInt(parts[3], 10, 64)
	return m, err == nil
}

// String returns the location of the member.
func (m Member) String() string {
	if m.Column != "" {
		return fmt.Sprintf("%s#%d@%s/%s", m.File, m.Row, url.PathEscape(m.Column), m.Name)
	}
	return fmt.Sprintf("%s#%d+%d/%s", m.File, m.Offset, m.Size, m.Name)
}

// Shown returns a location for people: for a member without the numbers.
func Shown(at string) string {
	if m, ok := ParseMember(at); ok {
		return m.File + "/" + m.Name
	}
	return at
}

// ReadCell returns the bytes of a member of a parquet file, nil if the cell is null. The package that reads tables sets it,
// because this package cannot import it.
var ReadCell func(m Member) ([]byte, error)

// content opens a member. It returns nil if the cell has only a path.
func (m Member) content(ctx context.Context) (store.Reader, error) {
	if m.Column != "" {
		if ReadCell == nil {
			return nil, errors.New("this program reads no parquet")
		}
		data, err := ReadCell(m)
		if data == nil || err != nil {
			return nil, err
		}
		return memberReader{bytes.NewReader(data), io.NopCloser(nil)}, nil
	}
	file, err := Open(ctx, m.File)
	if err != nil {
		return nil, err
	}
	if m.Size > maxContent || m.Offset+m.Size > file.Size() {
		_ = file.Close()
		return nil, fmt.Errorf("bytes %d to %d are not in the file, it has %d; has it changed?", m.Offset, m.Offset+m.Size, file.Size())
	}
	return memberReader{io.NewSectionReader(file, m.Offset, m.Size), file}, nil
}

// memberReader makes a store.Reader from the bytes of a member.
type memberReader struct {
	sized
	io.Closer
}

type sized interface {
	io.ReaderAt
	Size() int64
}

// checkNamed returns an error for a cell without bytes and without a path: its name was made from its row.
func (m Member) checkNamed() error {
	if m.Name != m.RowName() {
		return nil
	}
	return fmt.Errorf("row %d of %s: column %q is null: the media of this row is missing", m.Row+1, m.File, m.Column)
}

// RowName returns the name of a cell without a name: its row.
func (m Member) RowName() string { return fmt.Sprintf("row%d", m.Row+1) }

// copy writes a member to this host. The caller must release it.
func (m Member) copy(ctx context.Context) (Local, error) {
	r, err := m.content(ctx)
	if err != nil {
		return Local{}, m.named(err)
	}
	if r == nil {
		if err := m.checkNamed(); err != nil {
			return Local{}, err
		}
		return Media(ctx, m.Name)
	}
	defer r.Close()
	f, err := system.TempFile(system.Media, strings.ToLower(path.Ext(m.Name)))
	if err != nil {
		return Local{}, fault.TryAgain(err)
	}
	l := Local{Path: f.Name(), shown: Shown(m.String()), release: func() { os.Remove(f.Name()) }}
	_, err = io.Copy(f, io.NewSectionReader(r, 0, r.Size()))
	var disk *os.PathError
	if errors.As(err, &disk) && disk.Path == f.Name() {
		err = fault.TryAgain(err)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		l.Release()
		return Local{}, m.named(err)
	}
	return l, nil
}

// digest returns the digest of a file with the member's content. A member of a tar in a bucket is copied first, because probing
// a file needs many short reads.
func (m Member) digest(ctx context.Context) (string, error) {
	id := ""
	if IsAddress(m.File) {
		e, err := fileEntry(ctx, m.File)
		if err != nil {
			return "", m.named(rowsOwn(err))
		}
		sum := sha256.Sum256([]byte(e.id() + m.String()[len(m.File):]))
		id = lookID(hex.EncodeToString(sum[:16]))
		if digest, known := recallLook(id, m.String()); known {
			return digest, nil
		}
		l, err := m.copy(ctx)
		if err != nil {
			return "", rowsOwn(err)
		}
		defer l.Release()
		if l.shown == "" { // the cell has a path instead of content
			return MediaDigest(ctx, m.Name)
		}
		digest, err := media.Sum(ctx, l.Path)
		if err != nil {
			return "", l.Named(err)
		}
		return rememberLook(id, m.String(), digest.SHA256, digest.Look), nil
	}
	r, err := m.content(ctx)
	if err != nil {
		return "", m.named(rowsOwn(err))
	}
	if r == nil {
		if err := m.checkNamed(); err != nil {
			return "", err
		}
		return MediaDigest(ctx, m.Name)
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, r.Size())); err != nil {
		return "", m.named(err)
	}
	c := media.Content{ReaderAt: r, Size: r.Size(), Name: m.Name, Local: func() (string, func(), error) {
		l, err := m.copy(ctx)
		return l.Path, l.Release, err
	}}
	look, err := c.Look(ctx)
	if err != nil {
		return "", m.named(err)
	}
	look.Tell(Shown(m.String()))
	return hex.EncodeToString(sum.Sum(nil)) + look.Behind(), nil
}

// named adds the member to an error. The error's class does not change.
func (m Member) named(err error) error {
	return fmt.Errorf("read %s: %w", Shown(m.String()), err)
}

// Named replaces the path of a local copy in an error by the original location.
func (l Local) Named(err error) error {
	if err == nil || l.shown == "" {
		return err
	}
	names := strings.NewReplacer(l.Path, l.shown, filepath.Base(l.Path), path.Base(l.shown))
	return &namedError{names.Replace(err.Error()), err}
}

// namedError is an error with another text.
type namedError struct {
	text string
	err  error
}

// Error implements error.
func (e *namedError) Error() string { return e.text }

// Unwrap implements errors.Unwrap.
func (e *namedError) Unwrap() error { return e.err }
