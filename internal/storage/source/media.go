package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/system"
)

// Local is a file or a folder on this host.
type Local struct {
	Path    string
	sha     string // of a file that is a copy, in hex
	shown   string // what a copy is of, where errors say that instead of Path
	release func()
}

// Release lets a copy be removed from the cache.
func (l Local) Release() {
	if l.release != nil {
		l.release()
	}
}

// Media returns the media file, the member or the folder of frames at a location on this host. The caller releases it.
func Media(ctx context.Context, at string) (Local, error) {
	if m, ok := ParseMember(at); ok {
		l, err := m.copy(ctx)
		return l, rowsOwn(err)
	}
	if !IsAddress(at) {
		return Local{Path: at}, nil
	}
	l, err := file(ctx, at)
	if errors.Is(err, fs.ErrNotExist) && !isWeb(at) {
		l, err = folder(ctx, at)
	}
	return l, rowsOwn(err)
}

// Temporary writes the content of a media file to this host. The caller releases it.
func Temporary(data []byte, ext string) (Local, error) {
	f, err := system.TempFile(system.Media, ext)
	if err != nil {
		return Local{}, err
	}
	l := Local{Path: f.Name(), release: func() { os.Remove(f.Name()) }}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		l.Release()
		return Local{}, err
	}
	return l, nil
}

// MediaDigest is media.Digest of what is at a location: it names the content alone, wherever it lies.
func MediaDigest(ctx context.Context, at string) (string, error) {
	if m, ok := ParseMember(at); ok {
		return m.digest(ctx)
	}
	if !IsAddress(at) {
		return media.Digest(at)
	}
	e, err := fileEntry(ctx, at)
	if err == nil {
		if sha := fingerprints.Host.Recall(e.id()); sha != "" {
			return media.Decoded(sha, e.items[0].name), nil
		}
	}
	l, err := Media(ctx, at)
	if err != nil {
		return "", err
	}
	defer l.Release()
	if l.sha != "" {
		return media.Decoded(l.sha, l.Path), nil
	}
	return media.Digest(l.Path)
}

// fileEntry finds a single file.
func fileEntry(ctx context.Context, at string) (cachedCopy, error) {
	p, err := parse(ctx, at, config.InputSchemes)
	if err != nil {
		return cachedCopy{}, err
	}
	o, err := p.server.Find(ctx, p.key)
	if err != nil {
		return cachedCopy{}, err
	}
	return cachedCopy{p.server, kindFiles, p.String(), []item{{base(p.key), o}}}, nil
}

// file copies a single file to this host.
func file(ctx context.Context, at string) (Local, error) {
	e, err := fileEntry(ctx, at)
	if err != nil {
		return Local{}, err
	}
	c, err := e.obtain(ctx)
	if err != nil {
		return Local{}, err
	}
	name := e.items[0].name
	sha := c.facts.Files[name].SHA256
	if known := fingerprints.Host.Recall(e.id()); known != "" && known != sha {
		c.release()
		return Local{}, fmt.Errorf("copy %s: its content is another one than before, under the same version: sha256 %s, now %s", at,
			known, sha)
	}
	fingerprints.Host.Remember(e.id(), sha)
	return Local{Path: c.path(name), sha: sha, release: c.release}, nil
}

// frameExtensions are those of the images in a folder of frames.
var frameExtensions = []string{".png", ".jpg", ".jpeg"}

// folder copies the images below a prefix to this host. They are one video.
func folder(ctx context.Context, at string) (Local, error) {
	p, err := parse(ctx, at, config.BucketSchemes)
	if err != nil {
		return Local{}, err
	}
	if p.key != "" {
		p.key = strings.TrimSuffix(p.key, "/") + "/"
	}
	e, others := cachedCopy{server: p.server, kind: kindFiles, address: p.String()}, 0
	for o, err := range p.server.Objects(ctx, p.key, true) {
		if err != nil {
			return Local{}, err
		}
		name := strings.TrimPrefix(o.Key, p.key)
		if !slices.Contains(frameExtensions, strings.ToLower(path.Ext(name))) {
			others++
			continue
		}
		if err := store.CheckName(name); err != nil {
			return Local{}, fmt.Errorf("read %s: %w", at, err)
		}
		if e.items = append(e.items, item{name, o}); len(e.items) > media.FolderFramesMax {
			return Local{}, fmt.Errorf("read %s: the folder holds more than %d images", at, media.FolderFramesMax)
		}
	}
	switch {
	case len(e.items) == 0 && others == 0:
		return Local{}, &fs.PathError{Op: "read", Path: at, Err: fs.ErrNotExist}
	case len(e.items) == 0:
		return Local{}, fmt.Errorf("read %s: it holds no png or jpeg images; a folder is one video of such frames", at)
	}
	c, err := e.obtain(ctx)
	return Local{Path: c.path(""), release: c.release}, err
}
