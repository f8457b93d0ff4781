package jobtest

import (
	"testing"

	"latentbeam/internal/results/audit"
	"latentbeam/internal/storage/store/dir"
)

// Unmarked lists the stages of text to video, without marks of synthetic media in the files.
const Unmarked = "[encode_text, denoise, decode_vae, guard, encode_video: {marks: none}]"

// Verified returns what verify finds in an output.
func Verified(t *testing.T, out string) audit.Verified {
	t.Helper()
	d, err := dir.Open(out)
	Must(t, err)
	defer d.Close()
	v, err := audit.Verify(t.Context(), d)
	Must(t, err)
	return v
}
