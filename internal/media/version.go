package media

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"latentbeam/internal/system/process"
)

// versions are the versions of programs that were asked, by their path.
var versions sync.Map

// programVersion returns what an ffmpeg program says of its version and of the libraries that it decodes, scales and
// encodes with: other ones may give other bytes. It does not say which x264 it was built with.
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

// versionOf leaves out of the text of `ffmpeg -version` what does not change results: years and configuration.
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
