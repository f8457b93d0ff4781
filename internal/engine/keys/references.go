package keys

import (
	"context"
	"fmt"
	"os"
	"strings"

	"latentbeam/internal/storage/source"
)

// references knows the content of the files that rows are conditioned on or made of. A file is read once for a
// run, so that plan, run and tables agree on every key.
type references struct {
	*source.Contents
}

// digest names the content of the files of a row's reference, ";" between their paths, "" for none.
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

// media names the content of a file or folder that is to be encoded.
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

// noise names the content of the file with the noise that a row's latents begin with.
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
	digest, _, _ := strings.Cut(d, " ") // no program decodes it
	return digest, nil
}
