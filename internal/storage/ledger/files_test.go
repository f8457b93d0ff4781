package ledger

import (
	"fmt"
	"testing"

	"latentbeam/internal/storage/store"
)

// TestFilesStayOpenWhileUsed: a file that is evicted from the cache while a reader uses it stays open until the reader is done.
func TestFilesStayOpenWhileUsed(t *testing.T) {
	d := openDir(t)
	var objects []store.Object
	for i := range openFilesMax + 5 {
		objects = append(objects, store.Object{Name: fmt.Sprint(i), Data: []byte("content")})
	}
	must(t, d.Put(t.Context(), objects...))
	f := newFiles(t.Context(), d)
	var used store.Reader
	must(t, f.use("0", func(file store.Reader) error {
		used = file
		for _, o := range objects[1:] {
			must(t, f.use(o.Name, func(store.Reader) error { return nil }))
		}
		if f.open["0"] != nil || f.ages.Len() != openFilesMax {
			t.Errorf("%d files are open", f.ages.Len())
		}
		_, err := file.ReadAt(make([]byte, 7), 0)
		return err
	}))
	if _, err := used.ReadAt(make([]byte, 7), 0); err == nil {
		t.Error("the file was left open")
	}
	f.discard(objects[9].Name)
	f.close()
	if len(f.open) != 0 || f.ages.Len() != 0 {
		t.Error("close left files open")
	}
}
