package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"latentbeam/internal/system"
)

// Digest returns the SHA-256, in hex, of a file's content, or of the names and contents of the images in a folder in display
// order. A suffix contains everything else that affects the frames, see Look.Behind.
func Digest(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	files := []string{path}
	if err == nil && info.IsDir() {
		files, err = folderImages(path)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, withoutPlace(err))
	}
	if !info.IsDir() {
		one, err := Sum(ctx, path)
		if err != nil {
			return "", err
		}
		one.Tell(path)
		return one.SHA256 + one.Behind(), nil
	}
	sum := sha256.New()
	for _, file := range files {
		one, err := Sum(ctx, file)
		if err != nil {
			return "", err
		}
		behind := ""
		if one.format.isImage() { // opening the folder refuses all other files
			behind = one.Behind()
		}
		fmt.Fprintf(sum, "%s %q\n", one.SHA256+behind, filepath.Base(file))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Summed identifies the content of a file.
type Summed struct {
	SHA256 string // of its bytes, in hex
	Look
}

// Sum reads a local file.
func Sum(ctx context.Context, file string) (s Summed, err error) {
	if s.SHA256, err = fileDigest(file); err == nil {
		s.Look, err = LookAt(ctx, file)
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w", file, withoutPlace(err))
	}
	return s, nil
}

func fileDigest(path string) (string, error) {
	f, err := system.OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, buffer := sha256.New(), buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	if _, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, buffer[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// buffers are reused to read files. io.Copy would allocate a buffer for each file, larger than most clips.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}
