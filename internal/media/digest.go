package media

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Digest is the SHA-256, in hex, of a file's content, or of the names and contents of the images in a folder. Behind
// that of a file which ffmpeg decodes stands ffmpeg's version, where it is there: another one may give other frames.
func Digest(path string) (string, error) {
	info, err := os.Stat(path)
	files := []string{path}
	if err == nil && info.IsDir() {
		files, err = folderImages(path)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, unplaced(err))
	}
	sum := sha256.New()
	for _, file := range files {
		one, err := fileDigest(file)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", file, unplaced(err))
		}
		if len(files) == 1 && !info.IsDir() {
			return Decoded(one, file), nil
		}
		fmt.Fprintf(sum, "%s %q\n", one, filepath.Base(file))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Decoded adds the version of ffmpeg to the digest of a file that passes through it.
func Decoded(digest, file string) string {
	if ext := strings.ToLower(filepath.Ext(file)); ext == extY4M || isImage(ext) {
		return digest
	}
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return digest // opening the file says so
	}
	version, err := programVersion(program)
	if err != nil {
		return digest
	}
	return digest + " " + version
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
