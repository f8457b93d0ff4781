package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/system"
	"latentbeam/stages"
)

// digestOf returns a digest of the files that match patterns, "" if there are none. For each file it covers the bytes, and the
// name below the fixed part of the pattern. A directory stands for all files in it. The location of the files does not matter.
func digestOf(patterns []string) (string, error) {
	if len(patterns) == 0 {
		return "", nil
	}
	sum := sha256.New()
	for _, pattern := range patterns {
		files, base, err := match(pattern)
		if err != nil {
			return "", stages.Errorf("digest", "exec: digest: %v", err)
		}
		for _, file := range files {
			name, err := filepath.Rel(base, file)
			if err == nil {
				err = addFile(sum, filepath.ToSlash(name), file)
			}
			if err != nil {
				return "", stages.Errorf("digest", "exec: digest: %v", err)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// addFile adds the name and the content of a file to a sum.
func addFile(sum io.Writer, name, path string) error {
	f, err := system.OpenRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sum, "%q %x\n", name, content.Sum(nil))
	return err
}

// match returns the files of a pattern in order, and the directory that their names are relative to.
func match(pattern string) (files []string, base string, err error) {
	if inner, _ := strings.CutSuffix(pattern, "**"); strings.Contains(inner, "**") {
		return nil, "", fmt.Errorf("%q: ** has matched one level of folders here, and another meaning would make all rows new: name the folder, "+
			"which stands for all files below it, or write %q, which keeps the rows that are done", pattern, strings.ReplaceAll(pattern, "**", "*"))
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, "", fmt.Errorf("%q: %w", pattern, err)
	}
	if len(found) == 0 {
		return nil, "", fmt.Errorf("%q matches no file", pattern)
	}
	base = filepath.Clean(pattern)
	for strings.ContainsAny(base, `*?[\`) {
		base = filepath.Dir(base)
	}
	if len(found) == 1 && found[0] == pattern {
		base = filepath.Dir(base)
	}
	for _, path := range found {
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := os.Stat(path) // hubs store files as links
			switch {
			case err != nil:
				return err
			case info.IsDir():
				return fmt.Errorf("%s is a link to a directory: name the directory", path)
			case !info.Mode().IsRegular():
				return fmt.Errorf("%s is not a file", path)
			}
			files = append(files, path)
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	if len(files) == 0 {
		return nil, "", errors.New(pattern + " holds no files")
	}
	slices.Sort(files)
	return files, base, nil
}
