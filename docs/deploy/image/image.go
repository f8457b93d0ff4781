package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who the program runs as: nobody in particular, the number that distroless images use.
const user = 65532

// stamp is the time of every file, so that equal content gives equal images.
var stamp = time.Unix(0, 0).UTC()

// image is an image of the program: on below, or from scratch.
func image(binary, arch string, below v1.Image) (v1.Image, error) {
	fromScratch := below == nil
	if fromScratch {
		if err := checkStatic(binary); err != nil {
			return nil, err
		}
		below = mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	}
	content, err := files(binary, fromScratch)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(below, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: stamp}, CreatedBy: "latentbeam"}})
	if err != nil {
		return nil, err
	}
	old, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := old.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: stamp}
	config.Config.Entrypoint, config.Config.Cmd = []string{"/latentbeam"}, nil
	config.Config.User = fmt.Sprintf("%d:%d", user, user)
	config.Config.WorkingDir = "/work"
	config.Config.Env = append(config.Config.Env, "LATENTBEAM_CACHE=/cache", "ZONEINFO=/zoneinfo.zip")
	return mutate.ConfigFile(img, config)
}

// checkStatic refuses a program that needs an interpreter: from scratch there is none.
func checkStatic(binary string) error {
	f, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w; build one with: GOOS=linux CGO_ENABLED=0 make build", binary, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, and from scratch there is no libc: build it with CGO_ENABLED=0, or give -base",
				binary)
		}
	}
	return nil
}

// files is the layer: the program, what it may write to and, from scratch, what a base image would bring.
func files(binary string, fromScratch bool) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output() // runtime knows it not where paths are trimmed
	if err != nil {
		return nil, fmt.Errorf("time zones: go env GOROOT: %w", err)
	}
	zones, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, fmt.Errorf("time zones: %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	put := func(name string, mode int64, owner int, data []byte) {
		h := &tar.Header{Name: name, Mode: mode, Uid: owner, Gid: owner, Size: int64(len(data)), ModTime: stamp, Format: tar.FormatPAX,
			Typeflag: tar.TypeReg}
		if data == nil {
			h.Typeflag = tar.TypeDir
		}
		failed := w.WriteHeader(h)
		if failed == nil {
			_, failed = w.Write(data)
		}
		err = errors.Join(err, failed)
	}
	put("cache/", 0o755, user, nil)
	put("work/", 0o755, user, nil)
	put("zoneinfo.zip", 0o644, 0, zones)
	put("latentbeam", 0o755, 0, program)
	if fromScratch {
		put("tmp/", 0o1777, 0, nil)
		put("etc/", 0o755, 0, nil)
		put("etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:\nlatentbeam:x:%d:%d::/work:\n", user, user))
		put("etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nlatentbeam:x:%d:\n", user))
		put("etc/ssl/", 0o755, 0, nil)
		put("etc/ssl/certs/", 0o755, 0, nil)
		put("etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots())
	}
	return out.Bytes(), errors.Join(err, w.Close())
}

// roots are the certificates that buckets and web servers are checked by: Mozilla's list. Those with limits that a
// file cannot tell are left out.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return out.Bytes()
}
