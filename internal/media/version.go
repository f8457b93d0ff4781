package media

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"latentbeam/internal/system/process"
)

// versions caches the versions of programs by path.
var versions sync.Map

// programVersion returns the version of an ffmpeg program and of its libraries for decoding, scaling and encoding, because
// other versions may give other bytes. It does not contain the version of x264.
func programVersion(program string) (string, error) {
	if v, ok := versions.Load(program); ok {
		return v.(string), nil
	}
	const most = 1 << 20
	text, err := process.Output(context.Background(), process.Command{Path: program, Args: []string{"-version"}, Stall: probeTimeout}, most)
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", filepath.Base(program), err)
	}
	v := versionOf(string(text))
	versions.Store(program, v)
	return v, nil
}

// versionOf removes from the output of `ffmpeg -version` what does not affect results: years and configuration.
func versionOf(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(parts) == 0 && len(words) > 2 && words[1] == "version":
			parts = append(parts, words[0]+" "+words[2])
		case len(words) > 1 && strings.HasPrefix(words[0], "lib"):
			built, _, _ := strings.Cut(strings.Join(words[1:], ""), "/")
			parts = append(parts, words[0]+" "+built)
		}
	}
	return strings.Join(parts, ", ")
}
