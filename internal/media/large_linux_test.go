package media

import (
	"context"
	"fmt"
	"image"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"latentbeam/internal/system"
	"latentbeam/internal/system/testaid"
)

// largePicture is an environment variable with the path of an image. It makes the test binary the child process of TestLargePictures.
const largePicture = "LATENTBEAM_TEST_LARGE_PICTURE"

// TestLargePictures: three goroutines read images of 8000x8000, each 448 MB when decoded, in a process that may allocate only 1.1 GB more.
// The images are read one after the other. Without the limit of room, the process would run out of memory.
func TestLargePictures(t *testing.T) {
	testaid.Long(t, "it takes seconds")
	if path := os.Getenv(largePicture); path != "" {
		readLarge(t, path)
		return
	}
	path := writeFile(t, "large.png", pngBytes(t, image.NewRGBA(image.Rect(0, 0, 8000, 8000))))
	child := exec.Command(os.Args[0], "-test.run", "^TestLargePictures$", "-test.v")
	child.Env = append(os.Environ(), largePicture+"="+path, "GOMAXPROCS=2")
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "three pictures") {
		t.Errorf("%v:\n%.3000s", err, out)
	}
}

func readLarge(t *testing.T, path string) {
	const more = 1100 << 20
	var size int64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &size)
	}
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(size*int64(os.Getpagesize()) + more)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	if free := system.AvailableMemory(); free > more {
		t.Fatalf("%d bytes are free", free)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := readOne(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	fmt.Println("three pictures")
}

func readOne(ctx context.Context, path string) error {
	f, err := OpenFrames(ctx, path, 1, 0, 16, 16, Rules{})
	if err != nil {
		return err
	}
	defer f.Close()
	return f.At(make([]float32, 16*16*3), 0)
}
