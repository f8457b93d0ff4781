package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/system"
)

// sparseFile is a safetensors file of one tensor of so many bytes, of which the first were written.
func sparseFile(t *testing.T, size, written int64) string {
	t.Helper()
	header := fmt.Sprintf(`{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, size, size)
	for len(header)%8 != 0 {
		header += " "
	}
	data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, append(data, make([]byte, written)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(data))+size); err != nil {
		t.Skipf("NOT TESTED: this file system has no sparse files: %v", err)
	}
	return path
}

// TestSparse: a sparse file of terabytes is refused before anything is written. A file with small holes is converted.
func TestSparse(t *testing.T) {
	giant := sparseFile(t, 1<<40, 1<<20)
	if n, err := system.Written(giant); err != nil || n > 2<<20 {
		t.Skipf("NOT TESTED: this file system does not tell holes: %d bytes were written of 1 TiB, %v", n, err)
	}
	out, began := t.TempDir(), time.Now()
	_, err := Convert(giant, filepath.Join(out, "new.safetensors"), defaults)
	if err == nil || !strings.Contains(err.Error(), "sparse file") || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if left, err := os.ReadDir(out); len(left) > 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := Convert(sparseFile(t, 4<<20, 1<<20), filepath.Join(out, "small.safetensors"), defaults); err != nil {
		t.Error(err)
	}
}

// TestRoom: a conversion that does not fit on the disk is refused before it starts.
func TestRoom(t *testing.T) {
	c := &Checkpoint{Tensors: []Tensor{{Bytes: 1 << 60}, {Bytes: 1 << 60}}}
	if err := c.checkRoom(t.TempDir()); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	c.Tensors = []Tensor{{Bytes: 1}}
	if err := c.checkRoom(t.TempDir()); err != nil {
		t.Error(err)
	}
}
