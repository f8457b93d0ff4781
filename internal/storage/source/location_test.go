package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/config/document"
	"latentbeam/internal/media"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas/fault"
)

// services start each kind of bucket.
var services = map[string]func(testing.TB) *buckettest.Server{"gs": buckettest.GCS, "s3": buckettest.S3}

// inBuckets runs a test on each kind of bucket, with a cache of its own.
func inBuckets(t *testing.T, test func(t *testing.T, root string, server *buckettest.Server)) {
	for scheme, service := range services {
		t.Run(scheme, func(t *testing.T) {
			server := service(t)
			server.Use(t)
			t.Setenv(fingerprints.CacheVariable, t.TempDir())
			test(t, scheme+"://"+buckettest.Bucket, server)
		})
	}
}

// put writes objects into a bucket, in place of what is there.
func put(t *testing.T, root string, objects map[string]string) {
	t.Helper()
	s, err := open.Output(t.Context(), root)
	must(t, err)
	for name, text := range objects {
		must(t, s.Replace(t.Context(), name, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, r store.Reader, err error) string {
	t.Helper()
	must(t, err)
	defer r.Close()
	text, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	must(t, err)
	return string(text)
}

func TestOpen(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		put(t, root, map[string]string{"a/b.csv": "prompt\nx\n"})
		for range 2 {
			r, err := Open(t.Context(), root+"/a/b.csv")
			if got := read(t, r, err); got != "prompt\nx\n" {
				t.Errorf("%q", got)
			}
			r, err = Copy(t.Context(), root+"/a/b.csv")
			if got := read(t, r, err); got != "prompt\nx\n" {
				t.Errorf("%q", got)
			}
		}
		if _, err := Open(t.Context(), root+"/a/c.csv"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing object: %v", err)
		}
		put(t, root, map[string]string{"a/b.csv": "prompt\nanother\n"})
		r, err := Copy(t.Context(), root+"/a/b.csv")
		if got := read(t, r, err); got != "prompt\nanother\n" {
			t.Errorf("after a change: %q", got)
		}
	})
}

func TestExpand(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, _ *buckettest.Server) {
		put(t, root, map[string]string{"t/2.csv": "", "t/1.csv": "", "t/1.txt": "", "t/deep/3.csv": "", "u/4.csv": "", "v/[x].csv": ""})
		for pattern, want := range map[string]string{
			"/t/*.csv": "/t/1.csv /t/2.csv", "/*/*.csv": "/t/1.csv /t/2.csv /u/4.csv /v/[x].csv", "/t/?.txt": "/t/1.txt",
			"/v/[x].csv": "/v/[x].csv", "/t/deep": "/t/deep/", "/t": "/t/", "/t/*/*": "/t/deep/3.csv",
		} {
			files, err := Expand(t.Context(), []string{root + pattern, root + pattern}, 10)
			must(t, err)
			if got := strings.ReplaceAll(strings.Join(files, " "), root, ""); got != want {
				t.Errorf("%s: %s, want %s", pattern, got, want)
			}
		}
		for _, pattern := range []string{"/nothing/*", "/t/9.csv", "/tt"} {
			var wrong *document.Error
			if _, err := Expand(t.Context(), []string{root + pattern}, 10); !errors.As(err, &wrong) {
				t.Errorf("%s: %v", pattern, err)
			}
		}
		if _, err := Expand(t.Context(), []string{root + "/*/*.csv"}, 2); err == nil {
			t.Error("four files are no more than two")
		}
	})
}

// TestExpandMovedTables: tables of an output had another place in earlier releases. A pattern for that place gets an error
// that names the new one.
func TestExpandMovedTables(t *testing.T) {
	try := func(t *testing.T, root string) {
		for pattern, want := range map[string]string{
			"/n/tables/latents-*.parquet":                   "give " + root + "/n/tables/latents/*.parquet",
			"/n/tables/embeddings-00001-of-00004-*.parquet": "give " + root + "/n/tables/embeddings/00001-of-00004-*.parquet",
			"/n/tables/videos-00000.parquet":                "give " + root + "/n/tables/videos/00000.parquet",
			"/o/tables/failures/*.parquet":                  "or give " + root + "/o/tables/failures-*.parquet",
			"/o/tables/latents/*.parquet":                   "",
			"/n/tables/clips-*.parquet":                     "",
			"/nothing/*":                                    "",
		} {
			var wrong *document.Error
			_, err := Expand(t.Context(), []string{root + pattern}, 10)
			if !errors.As(err, &wrong) {
				t.Errorf("%s: %v", pattern, err)
				continue
			}
			if fix := wrong.Problems[0].Fix; want != "" && !strings.HasSuffix(fix, want) || want == "" &&
				strings.Contains(fix, "give "+root) {
				t.Errorf("%s: %s", pattern, fix)
			}
		}
		files, err := Expand(t.Context(), []string{root + "/o/tables/failures-*.parquet", root + "/n/tables/latents/*"}, 10)
		if err != nil || len(files) != 2 {
			t.Errorf("%v, %v", files, err)
		}
	}
	inBuckets(t, func(t *testing.T, root string, _ *buckettest.Server) {
		put(t, root, map[string]string{"n/tables/latents/00000.parquet": "", "o/tables/failures-00000.parquet": ""})
		try(t, root)
	})
	root := t.TempDir()
	for _, name := range []string{"n/tables/latents/00000.parquet", "o/tables/failures-00000.parquet"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	try(t, root)
}

// TestRememberedDigests: a digest that the host remembers from earlier versions says nothing of how a file is shown, so the file is read
// again; one with its look is not.
func TestRememberedDigests(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	// A jpeg with the orientation 6, so far as its header goes.
	turned := "\xff\xd8\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00\xff\xd9"
	sha := fmt.Sprintf("%x", sha256.Sum256([]byte(turned)))
	inBuckets(t, func(t *testing.T, root string, _ *buckettest.Server) {
		at := root + "/a.jpg"
		put(t, root, map[string]string{"a.jpg": turned})
		e, err := fileEntry(t.Context(), at)
		must(t, err)
		fingerprints.Host.Remember(e.id(), sha)
		for range 2 {
			if got, err := MediaDigest(t.Context(), at); err != nil || got != sha+" turn=6" {
				t.Errorf("%q, %v", got, err)
			}
		}
		if got := fingerprints.Host.Recall(lookID(e.id())); got != sha+" jpeg turn=6" {
			t.Errorf("the host remembers %q", got)
		}
		tar := root + "/a.tar" // whose member is the same file
		put(t, root, map[string]string{"a.tar": "0123" + turned})
		for range 2 {
			m := Member{File: tar, Offset: 4, Size: int64(len(turned)), Name: "a.jpg"}
			if got, err := MediaDigest(t.Context(), m.String()); err != nil || got != sha+" turn=6" {
				t.Errorf("a member: %q, %v", got, err)
			}
		}
	})
}

// TestMediaDigest: the digest of a file in the keys depends on its content, not on its place.
func TestMediaDigest(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "frames"), 0o755))
	files := map[string]string{"a.y4m": "YUV4MPEG2", "frames/1.png": "one", "frames/2.png": "two"}
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		files["frames/notes.txt"] = "no frame"
		put(t, root, files)
		for name, places := range map[string][]string{
			"a.y4m": {root + "/a.y4m", web.URL + "/a.y4m"}, "frames": {root + "/frames", root + "/frames/"},
		} {
			want, err := media.Digest(t.Context(), filepath.Join(dir, name))
			must(t, err)
			for _, at := range places {
				for range 2 {
					if got, err := MediaDigest(t.Context(), at); err != nil || got != want {
						t.Errorf("%s: %q, %v, want %q", at, got, err, want)
					}
				}
			}
		}
		for at, want := range map[string]string{
			root + "/b.y4m": "not exist", root + "/none/": "not exist", web.URL + "/b.y4m": "not exist",
			"ftp://host/a": "ftp://", "https://host/a?key=SECRET": "query", "gs://u:SECRET@b/x": "credentials",
		} {
			_, err := MediaDigest(t.Context(), at)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") ||
				fault.ClassOf(err) != fault.ClassRow {
				t.Errorf("%s: %v, want %q of a row", at, err, want)
			}
		}
	})
}

// TestDigestIsRemembered: a file whose copy is gone is not read again for its digest.
func TestDigestIsRemembered(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		put(t, root, map[string]string{"a.y4m": strings.Repeat("x", 3000)})
		want, err := MediaDigest(t.Context(), root+"/a.y4m")
		must(t, err)
		cache, _ := cacheDir()
		must(t, os.RemoveAll(filepath.Join(cache, kindFiles)))
		fingerprints.Host = fingerprints.Store{} // as in another process
		if got, err := MediaDigest(t.Context(), root+"/a.y4m"); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
		if entries, _ := list(filepath.Join(cache, kindFiles)); len(entries) != 0 {
			t.Errorf("it was copied: %v", entries)
		}
		l, err := Media(t.Context(), root+"/a.y4m")
		must(t, err)
		l.Release()
	})
}

// TestBadNetwork: copies are whole, although requests fail in every way.
func TestBadNetwork(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		want := map[string]string{}
		for i := range 12 {
			want[fmt.Sprintf("m/%d.safetensors", i)] = strings.Repeat(fmt.Sprint(i), 300_000)
		}
		put(t, root, want)
		server.Set(buckettest.Faults{Rate: 0.15, Seed: 4})
		dir, err := Model(t.Context(), root+"/m/")
		must(t, err)
		same(t, dir, "m/", want)
	})
}

// same compares the files in a directory with objects.
func same(t *testing.T, dir, prefix string, want map[string]string) {
	t.Helper()
	n := 0
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, strings.TrimPrefix(name, prefix)))
		if err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	}))
	if n != len(want) {
		t.Errorf("%d files, want %d", n, len(want))
	}
}

func TestModel(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		want := map[string]string{"hub/wan/model_index.json": "{}", "hub/wan/vae/a.safetensors": "weights", "hub/wan/vae/config.json": "{}"}
		put(t, root, want)
		put(t, root, map[string]string{"hub/wan/vae/a.bin": "pickle", "hub/wan/.git/config": "x", "hub/tokenizer/spiece.model": "y"})
		dir, err := Model(t.Context(), root+"/hub/wan")
		must(t, err)
		if filepath.Base(dir) != "wan" {
			t.Errorf("the directory is %s", dir)
		}
		same(t, dir, "hub/wan/", want)
		requests := server.Requests.Load()
		again, err := Model(t.Context(), root+"/hub/wan/")
		must(t, err)
		if n := server.Requests.Load() - requests; again != dir || n > 1 {
			t.Errorf("the second time: %s, %d requests", again, n)
		}
		dir, err = Model(t.Context(), root+"/hub/wan", "tokenizer")
		must(t, err)
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "tokenizer", "spiece.model")); err != nil {
			t.Error(err)
		}
		for at, want := range map[string]string{"/hub/none": "no files of a model", "/hub/wan/model_index.json": "one file"} {
			if _, err := Model(t.Context(), root+at); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", at, err)
			}
		}
	})
}

// TestDamagedCopy: a copy that was cut or changed is not used.
func TestDamagedCopy(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		want := map[string]string{"m/a.json": "content", "m/b.json": "more"}
		put(t, root, want)
		for damage, bytes := range map[string]string{"cut": "conte", "changed": "contend"} {
			dir, err := Model(t.Context(), root+"/m")
			must(t, err)
			path := filepath.Join(dir, "a.json")
			must(t, os.WriteFile(path, []byte(bytes), 0o600))
			must(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute)))
			dir, err = Model(t.Context(), root+"/m")
			must(t, err)
			t.Log(damage)
			same(t, dir, "m/", want)
		}
	})
}

// TestWrongChecksum: a content is refused if its checksum is not the one that the service gave.
func TestWrongChecksum(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		put(t, root, map[string]string{"a.y4m": strings.Repeat("x", 5000)})
		inner, spoiled := server.Service, 0
		server.Service = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			inner.ServeHTTP(answer, r)
			body := answer.Body.Bytes()
			if spoiled < 2 && len(body) == 5000 {
				spoiled++
				body[4000] = byte('0' + spoiled)
			}
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(body)
		})
		l, err := Media(t.Context(), root+"/a.y4m")
		must(t, err)
		defer l.Release()
		if text, err := os.ReadFile(l.Path); err != nil || strings.Count(string(text), "x") != 5000 || spoiled != 2 {
			t.Errorf("%v; %d bytes were spoiled", err, spoiled)
		}
	})
}

// TestManyAtOnce: callers that open one object at the same time get the same copy, and it is copied once.
func TestManyAtOnce(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, server *buckettest.Server) {
		text := strings.Repeat("abc", 2<<20)
		put(t, root, map[string]string{"m/a.safetensors": text})
		before := server.Requests.Load()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				dir, err := Model(context.Background(), root+"/m")
				if err != nil {
					t.Error(err)
					return
				}
				got, err := os.ReadFile(filepath.Join(dir, "a.safetensors"))
				if err != nil || sha256.Sum256(got) != sha256.Sum256([]byte(text)) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
		if n := server.Requests.Load() - before; n > 8+3 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestRoom: the copy that was used longest ago is removed first. A copy in use is never removed.
func TestRoom(t *testing.T) {
	inBuckets(t, func(t *testing.T, root string, _ *buckettest.Server) {
		t.Setenv(SizeVariable, "12KB")
		objects := map[string]string{}
		for i := range 6 {
			objects[fmt.Sprintf("%d.y4m", i)] = strings.Repeat("x", 3000)
		}
		put(t, root, objects)
		first, err := Media(t.Context(), root+"/0.y4m")
		must(t, err)
		for i := 1; i < 6; i++ {
			l, err := Media(t.Context(), fmt.Sprintf("%s/%d.y4m", root, i))
			must(t, err)
			l.Release()
		}
		if _, err := os.Stat(first.Path); err != nil {
			t.Errorf("a file in use was removed: %v", err)
		}
		first.Release()
		cache, _ := cacheDir()
		if entries, sum := list(filepath.Join(cache, kindFiles)); sum > 12_000 || len(entries) < 2 {
			t.Errorf("%d entries take %d bytes", len(entries), sum)
		}
	})
}

// TestWeb reads from servers without ranges, without sizes or without versions, and from servers that lie.
func TestWeb(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	const text = "prompt\none\ntwo\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain.csv":
			http.ServeContent(w, r, "plain.csv", time.Unix(1, 0), strings.NewReader(text))
		case "/whole.csv", "/space%20name.csv", "/space name.csv":
			w.Header().Set("ETag", `"1"`)
			_, _ = io.WriteString(w, text)
		case "/chunked.csv":
			for part := range strings.Lines(text) {
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		case "/moved.csv":
			http.Redirect(w, r, "/plain.csv", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, name := range []string{"plain", "whole", "chunked", "moved", "space%20name"} {
		for range 2 {
			r, err := Open(t.Context(), server.URL+"/"+name+".csv")
			if got := read(t, r, err); got != text {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	if _, err := Open(t.Context(), server.URL+"/none.csv"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestStdin(t *testing.T) {
	before := os.Stdin
	defer func() { os.Stdin = before }()
	r, w, err := os.Pipe()
	must(t, err)
	os.Stdin = r
	go func() {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
		w.Close()
	}()
	for range 3 {
		r, err := Open(t.Context(), Stdin)
		if got := read(t, r, err); len(got) != 100_000 {
			t.Errorf("%d bytes", len(got))
		}
	}
	if files, err := Expand(t.Context(), []string{Stdin}, 1); err != nil || len(files) != 1 || files[0] != Stdin {
		t.Errorf("%q, %v", files, err)
	}
}
