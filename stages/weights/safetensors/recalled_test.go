package safetensors

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/storage/fingerprints"
)

// TestDigestIsRecalled: a host reads a large file only once for its digest, and reads it again if the file has changed.
func TestDigestIsRecalled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux is every change of a file detected")
	}
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	large := fmt.Sprintf(`{"b":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, rememberedBytes)
	index := shards(t, map[string]any{
		"model.safetensors.index.json": `{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}`,
		"1.safetensors":                map[string]byte{"a": 1},
		"2.safetensors":                string(build(large, rememberedBytes)),
	})
	finite := true
	digest := func() string {
		t.Helper()
		fingerprints.Host = fingerprints.Store{} // as in another process
		f, err := OpenIndex(index)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.IsFinite() {
			t.Error("nobody has looked at the values so far")
		}
		sha := f.Digest()
		finite = f.IsFinite()
		return sha
	}
	fresh := digest()
	if entries, _ := filepath.Glob(filepath.Join(os.Getenv(fingerprints.CacheVariable), "digests", "*")); len(entries) > 0 {
		t.Errorf("the digest of files that were written just now is remembered: %v", entries)
	}
	planted := strings.Repeat("5", 64)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))) // files are old
		if got := digest(); got != fresh {
			t.Errorf("the digest was %s and is %s", fresh, got)
		}
		var marks []fingerprints.Mark
		for _, name := range []string{"1.safetensors", "2.safetensors"} {
			marks = append(marks, fingerprints.MarkFile(filepath.Join(filepath.Dir(index), name)))
		}
		id := fingerprints.MarksID("tensors", marks...)
		if got := fingerprints.Host.Recall(id); got != fresh {
			t.Fatalf("the host remembers %q", got)
		}
		fingerprints.Host.Remember(id, planted) // which shows where a digest comes from
		if got := digest(); got != planted {
			t.Errorf("the files were read again: %s", got)
		}
		if !finite {
			t.Error("whole numbers are taken for infinities")
		}
		fingerprints.Host.Remember(fingerprints.MarksID("finite tensors", marks...), notFinite)
		if digest(); finite {
			t.Error("that values are infinite is forgotten")
		}
		if err := os.Chtimes(filepath.Join(filepath.Dir(index), "1.safetensors"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if got := digest(); got != fresh {
			t.Errorf("files of which one was touched have the digest %s", got)
		}
	})
}

// TestIsFinite: computing a digest finds a value that is not finite in any tensor.
func TestIsFinite(t *testing.T) {
	for bits, want := range map[uint32]bool{0x3f800000: true, 0x7fc00000: false, 0xff800000: false} {
		data := binary.LittleEndian.AppendUint32([]byte{1, 2, 3, 4}, bits)
		f, err := New(append(build(`{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 0), data...))
		if err != nil {
			t.Fatal(err)
		}
		if f.Digest(); f.IsFinite() != want {
			t.Errorf("%x: finite is %v", bits, f.IsFinite())
		}
	}
}
