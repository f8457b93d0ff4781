package safetensors

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/digests"
)

// TestDigestIsRecalled: a host reads a large file once for its digest, and again when the file is another one.
func TestDigestIsRecalled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a change of a file can be told for sure on Linux alone")
	}
	t.Setenv(digests.CacheVariable, t.TempDir())
	large := fmt.Sprintf(`{"b":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, rememberedBytes)
	index := shards(t, map[string]any{
		"model.safetensors.index.json": `{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}`,
		"1.safetensors":                map[string]byte{"a": 1},
		"2.safetensors":                string(build(large, rememberedBytes)),
	})
	digest := func() string {
		t.Helper()
		digests.Host = digests.Store{} // as in another process
		f, err := OpenIndex(index)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.Digest()
	}
	fresh := digest()
	if entries, _ := filepath.Glob(filepath.Join(os.Getenv(digests.CacheVariable), "digests", "*")); len(entries) > 0 {
		t.Errorf("the digest of files that were written just now is remembered: %v", entries)
	}
	planted := strings.Repeat("5", 64)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))) // files are old
		if got := digest(); got != fresh {
			t.Errorf("the digest was %s and is %s", fresh, got)
		}
		var marks []digests.Mark
		for _, name := range []string{"1.safetensors", "2.safetensors"} {
			marks = append(marks, digests.MarkOf(filepath.Join(filepath.Dir(index), name)))
		}
		id := digests.ID("tensors", marks...)
		if got := digests.Host.Recall(id); got != fresh {
			t.Fatalf("the host remembers %q", got)
		}
		digests.Host.Remember(id, planted) // which shows where a digest comes from
		if got := digest(); got != planted {
			t.Errorf("the files were read again: %s", got)
		}
		if err := os.Chtimes(filepath.Join(filepath.Dir(index), "1.safetensors"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if got := digest(); got != fresh {
			t.Errorf("files of which one was touched have the digest %s", got)
		}
	})
}
