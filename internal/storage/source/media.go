package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	sha     string // SHA-256 of a copied file, in hex
	shown   string // original location of a copy; errors show it instead of Path
	release func()
}

// Release allows a copy to be removed from the cache.
func (l Local) Release() {
	if l.release != nil {
		l.release()
	}
}

// Media returns a local copy of the media file, the member or the folder of frames at a location. The caller must release it.
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

// Temporary writes the content of a media file to this host. The caller must release it.
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

// MediaDigest is media.Digest for a location: it depends only on the content, not on the location.
func MediaDigest(ctx context.Context, at string) (string, error) {
	if m, ok := ParseMember(at); ok {
		return m.digest(ctx)
	}
	if !IsAddress(at) {
		return media.Digest(ctx, at)
	}
	id := ""
	if e, err := fileEntry(ctx, at); err == nil {
		id = lookID(e.id())
		if digest, known := recallLook(id, at); known {
			return digest, nil
		}
	}
	l, err := Media(ctx, at)
	if err != nil {
		return "", err
	}
	defer l.Release()
	if l.sha == "" {
		return media.Digest(ctx, l.Path)
	}
	look, err := media.LookAt(ctx, l.Path)
	if err != nil {
		return "", l.Named(err)
	}
	return rememberLook(id, at, l.sha, look), nil
}

// lookID returns the id under which a digest with a look is stored. Earlier versions stored digests without one.
func lookID(id string) string {
	sum := sha256.Sum256([]byte("look 1 " + id))
	return hex.EncodeToString(sum[:16])
}

// recallLook returns the digest of the media at a location, if the host remembers it.
func recallLook(id, at string) (digest string, known bool) {
	sha, text, _ := strings.Cut(fingerprints.Host.Recall(id), " ")
	look, known := media.LookFrom(text)
	if !known {
		return "", false
	}
	look.Tell(Shown(at))
	return sha + look.Behind(), true
}

// rememberLook returns the digest of the media at a location and stores it under id, unless id is "".
func rememberLook(id, at, sha string, look media.Look) string {
	fingerprints.Host.Remember(id, sha+" "+look.String())
	look.Tell(Shown(at))
	return sha + look.Behind()
}

// fileEntry returns the cache entry for a single file.
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

// folder copies the images below a prefix to this host. They form one video.
func folder(ctx context.Context, at string) (Local, error) {
	p, err := parse(ctx, at, config.BucketSchemes)
	if err != nil {
		return Local{}, err
	}
	if p.key != "" {
		p.key = strings.TrimSuffix(p.key, "/") + "/"
	}
	e, found, names := cachedCopy{server: p.server, kind: kindFiles, address: p.String()}, map[string]item{}, []string(nil)
	for o, err := range p.server.Objects(ctx, p.key, true) {
		if err != nil {
			return Local{}, err
		}
		name := strings.TrimPrefix(o.Key, p.key)
		found[name], names = item{name, o}, append(names, name)
		if len(names) > 2*media.FolderFramesMax {
			return Local{}, fmt.Errorf("read %s: the folder holds more than %d files", at, 2*media.FolderFramesMax)
		}
	}
	frames := media.FrameFiles(names)
	switch {
	case len(names) == 0:
		return Local{}, &fs.PathError{Op: "read", Path: at, Err: fs.ErrNotExist}
	case len(frames) == 0:
		return Local{}, fmt.Errorf("read %s: it holds no png or jpeg images; a folder is one video of such frames", at)
	case len(frames) > media.FolderFramesMax:
		return Local{}, fmt.Errorf("read %s: the folder holds more than %d images", at, media.FolderFramesMax)
	}
	slices.Sort(frames) // the order is part of the copy's name since the first release
	for _, name := range frames {
		if err := store.CheckName(name); err != nil {
			return Local{}, fmt.Errorf("read %s: %w", at, err)
		}
		e.items = append(e.items, found[name])
	}
	c, err := e.obtain(ctx)
	return Local{Path: c.path(""), release: c.release}, err
}
