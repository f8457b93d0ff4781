package transforms

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"latentbeam/internal/media"
)

// maxReferenceFile bounds an image or video that rows are conditioned on.
const maxReferenceFile = 4 << 30

// references knows the content of the files that rows are conditioned on. A file is read once for a run, so
// that plan, run and tables agree on every key.
type references struct {
	known sync.Map // path -> digest string
}

// digest names the content of the files of a row's reference, ";" between their paths, "" for none.
func (r *references) digest(reference string) (string, error) {
	if reference == "" {
		return "", nil
	}
	var all []string
	for path := range strings.SplitSeq(reference, ";") {
		d, err := r.file(path)
		if err != nil {
			return "", fmt.Errorf("reference: %w", err)
		}
		all = append(all, d)
	}
	return strings.Join(all, ";"), nil
}

// media names the content of a file or folder that is to be encoded.
func (r *references) media(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	const space = "media " // apart from the references
	if d, ok := r.known.Load(space + path); ok {
		return d.(string), nil
	}
	if strings.Contains(path, "://") {
		return "", fmt.Errorf("media: %q is an address; download it and give the file", path)
	}
	d, err := media.Digest(path)
	if err != nil {
		return "", fmt.Errorf("media: %w", err)
	}
	r.known.Store(space+path, d)
	return d, nil
}

func (r *references) file(path string) (string, error) {
	if d, ok := r.known.Load(path); ok {
		return d.(string), nil
	}
	if strings.Contains(path, "://") {
		return "", fmt.Errorf("%q is an address; download it and give the file", path)
	}
	info, err := os.Stat(path) // before it is opened: a pipe would wait for its writer
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxReferenceFile {
		return "", fmt.Errorf("%q is not a file of at most %d GiB", path, maxReferenceFile>>30)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, f); err != nil || n != info.Size() {
		return "", errors.Join(fmt.Errorf("read %q: %d of %d bytes", path, n, info.Size()), err)
	}
	d := hex.EncodeToString(sum.Sum(nil))
	r.known.Store(path, d)
	return d, nil
}
