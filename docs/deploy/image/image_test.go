//go:build linux

package main

import (
	"archive/tar"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program builds latentbeam and returns its path.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "latentbeam")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/latentbeam")
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// openImage returns the only image of an OCI layout, after a check of its digests.
func openImage(t *testing.T, dir string) v1.Image {
	t.Helper()
	at, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	index, err := at.IndexManifest()
	must(t, err)
	if len(index.Manifests) != 1 {
		t.Fatalf("the layout has %d images, want 1", len(index.Manifests))
	}
	img, err := at.Image(index.Manifests[0].Digest)
	must(t, err)
	must(t, validate.Image(img))
	return img
}

// TestImage builds the image for CPUs twice, which must give the same digest, and runs a job in the root file system of the image, where no
// file of this host is seen.
func TestImage(t *testing.T) {
	binary, dir := program(t), t.TempDir()
	must(t, run(binary, dir+"/one", "", "", "amd64"))
	must(t, run(binary, dir+"/two", "", "", "amd64"))
	img, again := openImage(t, dir+"/one"), openImage(t, dir+"/two")
	one, _ := img.Digest()
	if two, _ := again.Digest(); one != two {
		t.Errorf("the same program gives the images %s and %s", one, two)
	}
	if kind, _ := img.MediaType(); kind != types.OCIManifestSchema1 {
		t.Errorf("the manifest's type is %s, want %s", kind, types.OCIManifestSchema1)
	}
	config, err := img.ConfigFile()
	must(t, err)
	if config.Config.User != "65532:65532" || config.OS != "linux" || config.Config.Entrypoint[0] != "/latentbeam" {
		t.Errorf("user, OS or entry point is wrong: %s, %+v", config.OS, config.Config)
	}
	if err := run(binary, dir+"/one", "", "", "amd64"); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a folder that already has a layout: got %v", err)
	}
	root := t.TempDir()
	unpack(t, img, root)
	inside(t, root, config, "version")
	inside(t, root, config, "init")
	for _, want := range []string{"2 to do", "0 to do"} { // the second run finds the output of the first
		if out := inside(t, root, config, "run", "job.yaml", "--limit", "2"); !strings.Contains(out, want) {
			t.Errorf("want %q:\n%s", want, out)
		}
	}
}

// unpack writes the files of an image as a container runtime does.
func unpack(t *testing.T, img v1.Image, root string) {
	t.Helper()
	from := mutate.Extract(img)
	defer from.Close()
	must(t, os.Chmod(root, 0o755))
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(path, 0o755))
		} else {
			data, err := io.ReadAll(r)
			must(t, err)
			must(t, os.WriteFile(path, data, 0o644))
		}
		must(t, os.Chmod(path, os.FileMode(h.Mode&0o777)))
		if os.Geteuid() == 0 {
			must(t, os.Chown(path, h.Uid, h.Gid))
		}
	}
}

// inside runs the program of an image in the root file system of the image, so that it sees no library and no file of this host. It
// returns the program's output.
func inside(t *testing.T, root string, config *v1.ConfigFile, args ...string) string {
	t.Helper()
	cmd := exec.Command("/latentbeam", args...)
	cmd.Dir, cmd.Env = config.Config.WorkingDir, config.Config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
		for dir := root; dir != "/"; dir = filepath.Dir(dir) { // the user of the image must get there
			if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
				must(t, os.Chmod(dir, info.Mode()|0o011))
			}
		}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Skipf("NOT CHECKED: this user may not change the root of a process: %v", err)
	}
	if err != nil {
		t.Fatalf("latentbeam %v: %v: %s", args, err, out)
	}
	return string(out)
}

// TestPush pushes an image to a registry in this process, and builds another one on top of it.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://") + "/team/latentbeam:test"
	dir := t.TempDir()
	static := filepath.Join(dir, "static")
	cmd := exec.Command("go", "build", "-o", static, "./testdata/hello")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, run(static, dir+"/one", "", at, "amd64"))
	must(t, run(static, dir+"/two", at, "", "amd64"))
	ref, err := name.ParseReference(at)
	must(t, err)
	pushed, err := remote.Image(ref)
	must(t, err)
	want, _ := openImage(t, dir+"/one").Digest()
	if got, _ := pushed.Digest(); got != want {
		t.Errorf("%s was pushed, want %s", got, want)
	}
	layers, err := openImage(t, dir+"/two").Layers()
	must(t, err)
	if len(layers) != 2 {
		t.Errorf("got %d layers, want 2: one of the base image and one on top", len(layers))
	}
}

// TestDynamic: an image without a base has no libc, so a dynamically linked program is refused.
func TestDynamic(t *testing.T) {
	for file, want := range map[string]string{"/bin/ls": "dynamically", "image.go": "no program"} {
		if _, err := os.Stat(file); err != nil {
			t.Skip("NOT CHECKED: ", err)
		}
		if _, err := image(file, "amd64", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
