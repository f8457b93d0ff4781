package keys

import (
	"context"
	"fmt"
	"os"
	"strings"

	"latentbeam/internal/storage/source"
)

// references computes the digests of the files that rows refer to. A file is read once in a run, so that plan, run
// and tables agree on every key.
type references struct {
	*source.Contents
}

// digest returns the digests of the files of a row's reference, joined by ";". Paths in reference are separated by ";".
func (r *references) digest(reference, hdr string) (string, error) {
	if reference == "" {
		return "", nil
	}
	var all []string
	for path := range strings.SplitSeq(reference, ";") {
		d, err := r.DigestAs(context.Background(), path, hdr)
		if err != nil {
			return "", fmt.Errorf("reference: %w", err)
		}
		all = append(all, d)
	}
	return strings.Join(all, ";"), nil
}

// media returns the digest of a file or folder to encode.
func (r *references) media(path, hdr string) (string, error) {
	if path == "" {
		return "", nil
	}
	d, err := r.DigestAs(context.Background(), path, hdr)
	if err != nil {
		return "", fmt.Errorf("media: %w", err)
	}
	return d, nil
}

// noise returns the digest of the file with a row's initial noise.
func (r *references) noise(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "", fmt.Errorf("noise: %q is a directory; name a safetensors file", path)
	}
	d, err := r.Digest(context.Background(), path)
	if err != nil {
		return "", fmt.Errorf("noise: %w", err)
	}
	digest, _, _ := strings.Cut(d, " ") // without the name of a decoding program
	return digest, nil
}
