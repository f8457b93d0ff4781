package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpack writes the files of an archive below the directory of the shell.
func (s shell) unpack(archive string) {
	s.t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		s.t.Fatal(err)
	}
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.t.Fatal(err)
		}
		path := filepath.Join(s.dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.WriteFile(path, data, 0o644), os.Chtimes(path, h.ModTime, h.ModTime))
			}
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestPromiseP15 verifies outputs of every released format and runs their jobs again: nothing is computed, and no video or poster
// changes. The first run may write tables to another place; the second has nothing to do.
func TestPromiseP15(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/compat/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("got %d archives, %v", len(archives), err)
	}
	rows, files := 0, 0
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			s := newShell(t)
			s.env = append(s.env, "LATENTBEAM_CPU=go")
			s.unpack(archive)
			// This was the default of these releases. With the present default the rows are new (see CHANGELOG).
			media, err := os.ReadFile(filepath.Join(s.dir, "media.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			s.write("media.yaml", strings.Replace(string(media), "encode_vae", "encode_vae: {posterior: sample}", 1))
			for job, out := range map[string]string{"job.yaml": "out", "media.yaml": "latents"} {
				before := s.made(out)
				s.says(s.run(0, "verify", out), "all is as it was written")
				s.says(s.run(1, "run", job), "0 to do", "1 failed")
				s.says(s.run(1, "run", job), "nothing to do: all", "0 to do", "1 failed")
				s.says(s.run(0, "verify", out), "all is as it was written")
				after := s.made(out)
				for name, text := range before {
					if folder, _, _ := strings.Cut(filepath.ToSlash(name), "/"); folder != "videos" && folder != "posters" {
						continue
					}
					if files++; after[name] != text {
						t.Errorf("the file %s/%s has changed", out, name)
					}
				}
			}
			for shard := range 2 {
				s.says(s.run(1, "run", "job.yaml", "--shard", []string{"0/2", "1/2"}[shard]), "0 to do")
			}
			rows += 11
			s.write("prompts.csv", "id,prompt,seed\na,a red circle moves left,1\nnew,a white circle,\n")
			s.says(s.run(0, "run", "job.yaml"), "1 to do, 1 done before")
		})
	}
	t.Logf("P15: %d archives of released formats, %d rows: none computed again, %d files not a byte changed; a new row was added to each",
		len(archives), rows, files)
}
