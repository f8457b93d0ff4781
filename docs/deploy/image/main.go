// Image writes a container image of latentbeam without Docker, as an OCI layout: a directory that registries, podman,
// skopeo, crane and containerd take. Equal binaries give equal images.
//
//	go run ./image -binary latentbeam -out layout                     # from scratch, for CPUs
//	go run ./image -binary latentbeam -out layout -push REGISTRY/NAME:TAG
//	go run ./image -binary latentbeam-cuda -out layout -base IMAGE    # on another image
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	binary := flag.String("binary", "latentbeam", "the static program")
	out := flag.String("out", "layout", "directory of the OCI layout, which must not be there")
	base := flag.String("base", "", "reference of the image below; none: from scratch")
	push := flag.String("push", "", "reference to push the image to as well; credentials as docker has them")
	arch := flag.String("arch", "amd64", "processor of the program, as Go names it")
	flag.Parse()
	if err := run(*binary, *out, *base, *push, *arch); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(binary, out, base, push, arch string) error {
	below, err := baseImage(base, arch)
	if err != nil {
		return err
	}
	img, err := image(binary, arch, below)
	if err != nil {
		return err
	}
	digest, err := write(img, out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", out, digest)
	if push == "" {
		return nil
	}
	ref, err := name.ParseReference(push)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, img, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	fmt.Printf("%s@%s\n", ref.Context(), digest)
	return nil
}

// baseImage is the image to build upon, nil for none.
func baseImage(base, arch string) (v1.Image, error) {
	if base == "" {
		return nil, nil
	}
	ref, err := name.ParseReference(base)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref, remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	return img, nil
}

// write makes the layout of one image.
func write(img v1.Image, out string) (digest v1.Hash, err error) {
	if _, err := os.Stat(out); err == nil {
		return digest, fmt.Errorf("%s is there already: remove it, or give another -out", out)
	}
	if digest, err = img.Digest(); err != nil {
		return digest, err
	}
	at, err := layout.Write(out, empty.Index)
	if err != nil {
		return digest, err
	}
	return digest, at.AppendImage(img)
}
