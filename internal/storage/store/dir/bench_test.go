package dir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// BenchmarkSizes gets the size of one of 100,000 files in many directories, as a rerun does for each row.
func BenchmarkSizes(b *testing.B) {
	d := openTest(b)
	names := make([]string, 100_000)
	for i := range names {
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		key := hex.EncodeToString(sum[:])
		names[i] = "videos/" + key[:2] + "/" + key + ".mp4"
		path := filepath.Join(d.Path(), filepath.FromSlash(names[i]))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	s := d.Sizes(b.Context())
	defer s.Close()
	i := 0
	for b.Loop() {
		if _, err := s.Of(b.Context(), names[i%len(names)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
