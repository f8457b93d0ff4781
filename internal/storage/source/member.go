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

// Member is a media file inside another file: a range of a tar, or a cell of a parquet file. Its String is a location.
type Member struct {
	File         string // location of the tar or the parquet file
	Offset, Size int64  // of a tar: where the content lies
	Row          int64  // of a parquet file, from 0
	Column       string // "": the member of a tar
	Name         string // as the file calls it
}

var memberForm = regexp.MustCompile(`(?s)^(.+?)#(\d{1,18})(?:\+(\d{1,18})|@([^/]+))/(.+)$`)

// ParseMember takes a Member's String apart.
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

// String is the location of the member.
func (m Member) String() string {
	if m.Column != "" {
		return fmt.Sprintf("%s#%d@%s/%s", m.File, m.Row, url.PathEscape(m.Column), m.Name)
	}
	return fmt.Sprintf("%s#%d+%d/%s", m.File, m.Offset, m.Size, m.Name)
}

// Shown is a location for people: of a member without the numbers.
func Shown(at string) string {
	if m, ok := ParseMember(at); ok {
		return m.File + "/" + m.Name
	}
	return at
}

// ReadCell returns the bytes of a member of a parquet file, nil where the cell has none. The package that reads tables
// sets it, because it stands above this one.
var ReadCell func(m Member) ([]byte, error)

// content opens a member. It is nil where only a path stands in the place of the content.
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

// memberReader is the bytes of a member as a store.Reader.
type memberReader struct {
	sized
	io.Closer
}

type sized interface {
	io.ReaderAt
	Size() int64
}

// checkNamed is an error about a cell that holds neither bytes nor a path: its name was made of its row.
func (m Member) checkNamed() error {
	if m.Name != m.RowName() {
		return nil
	}
	return fmt.Errorf("row %d of %s: column %q is null: the media of this row is missing", m.Row+1, m.File, m.Column)
}

// RowName names a cell by its row, where it has no name of its own.
func (m Member) RowName() string { return fmt.Sprintf("row%d", m.Row+1) }

// copy writes a member to this host. The caller releases it.
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

// digest is that of a file with the member's content. A member of a bucket's tar is copied for it, since looking at a file takes many
// short reads.
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
		if l.shown == "" { // a path in the place of the content
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

// named says in an error which member it is about. The error's class stays.
func (m Member) named(err error) error {
	return fmt.Errorf("read %s: %w", Shown(m.String()), err)
}

// Named is an error about a local copy with the name of what was copied in place of the copy's.
func (l Local) Named(err error) error {
	if err == nil || l.shown == "" {
		return err
	}
	names := strings.NewReplacer(l.Path, l.shown, filepath.Base(l.Path), path.Base(l.shown))
	return &namedError{names.Replace(err.Error()), err}
}

// namedError says an error in other words.
type namedError struct {
	text string
	err  error
}

// Error implements error.
func (e *namedError) Error() string { return e.text }

// Unwrap implements errors.Unwrap.
func (e *namedError) Unwrap() error { return e.err }
