package export

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"latentbeam/schemas"
)

const (
	filesEnv    = "LATENTBEAM_EXPORT_FILES"    // number of rows; 1000000 for the full test
	filesDirEnv = "LATENTBEAM_TEST_EXPORT_DIR" // makes this binary the child that writes there

	fewFiles = 4000 // without filesEnv
)

// taken is the memory that a child process reports.
type taken struct {
	PeakKiB int64 // resident
	Grown   int64 // in use at the end, less what was in use after a tenth of the rows
	Rows    int64
}

// TestMemoryOfManyFiles: a format with a file for each row uses the same memory for any number of rows.
func TestMemoryOfManyFiles(t *testing.T) {
	if dir := os.Getenv(filesDirEnv); dir != "" {
		manyFiles(t, dir)
		return
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs /proc")
	}
	many := fewFiles
	if text := os.Getenv(filesEnv); text != "" {
		var err error
		many, err = strconv.Atoi(text)
		must(t, err)
	}
	few := many / 10
	for _, to := range []string{"musubi", "safetensors"} {
		small, large := child(t, to, few), child(t, to, many)
		each := float64(large.Grown) / float64(many-few)
		t.Logf("P3: %s, %d rows: %d KiB resident, %d for %d: %.1f bytes a row stay in use", to, many, large.PeakKiB, small.PeakKiB, few, each)
		if large.PeakKiB > small.PeakKiB+16<<10 {
			t.Errorf("%s: %d KiB are resident for %d rows, %d for %d", to, large.PeakKiB, many, small.PeakKiB, few)
		}
		if each > 8 {
			t.Errorf("%s: %.1f bytes a row stay in use", to, each)
		}
	}
}

// child exports rows in a separate process.
func child(t *testing.T, to string, rows int) (got taken) {
	t.Helper()
	began := time.Now()
	dir := filepath.Join(t.TempDir(), to)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryOfManyFiles$", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), filesDirEnv+"="+dir, filesEnv+"="+strconv.Itoa(rows))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", to, err, out)
	}
	must(t, json.NewDecoder(strings.NewReader(string(out))).Decode(&got))
	if got.Rows != int64(rows) {
		t.Errorf("%s: %d of %d rows", to, got.Rows, rows)
	}
	must(t, os.RemoveAll(dir))
	t.Logf("%s: %d rows in %v", to, rows, time.Since(began).Round(time.Millisecond))
	return got
}

// manyFiles writes rows in the format that the name of a directory gives, and returns the used memory.
func manyFiles(t *testing.T, dir string) {
	rows, err := strconv.Atoi(os.Getenv(filesEnv))
	must(t, err)
	o := &out{dir: dir, final: dir}
	must(t, os.MkdirAll(dir, 0o755))
	w := formats[filepath.Base(dir)].open(o)
	latent, text := make([]byte, 4*wanChannels), make([]byte, 4*2)
	inUse := func() int64 {
		runtime.GC()
		runtime.GC() // frees objects whose finalizers the first collection ran
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		return int64(heap.HeapAlloc)
	}
	var early int64
	for i := range rows {
		if i == rows/10 {
			early = inUse()
		}
		must(t, w.add(&sample{row: schemas.LatentRow{ID: fmt.Sprintf("%d/Clip-%d", i%1000, i), VAELatentBytes: latent,
			VAELatentShape: []int64{wanChannels, 1, 1, 1}, LatentScale: 1, Width: 16, Height: 16, VideoFrames: 1, MediaType: "image",
			Caption: fmt.Sprint("clip number ", i)}, text: text, len: []int64{1, 2}}))
		o.done.Rows++
	}
	grown := inUse() - early
	must(t, w.close())
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	got := taken{Grown: grown, Rows: o.done.Rows}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(peak, &got.PeakKiB)
	must(t, err)
	must(t, json.NewEncoder(os.Stdout).Encode(got))
}
