package hub

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/stages/weights/hub/hubtest"
)

// whole is a repository as diffusers has them, with what no job needs.
func whole() hubtest.Repo {
	big := strings.Repeat("weights ", 4000)
	return hubtest.Repo{Licence: "apache-2.0", Revision: "v1", Files: map[string]string{
		"model_index.json": `{"_class_name": "WanPipeline"}`, "README.md": "read me", "LICENSE.txt": "the licence",
		"assets/logo.png": strings.Repeat("p", 5000), ".gitattributes": "*",
		"transformer/config.json": "{}", "transformer/diffusion_pytorch_model.safetensors.index.json": "{}",
		"transformer/diffusion_pytorch_model-00001-of-00002.safetensors": big + "1",
		"transformer/diffusion_pytorch_model-00002-of-00002.safetensors": big + "2",
		"transformer/diffusion_pytorch_model.bin":                        big + "bin",
		"transformer/diffusion_pytorch_model.fp16.safetensors":           big + "half",
		"vae/config.json": `{"vae": 1}`, "vae/diffusion_pytorch_model.safetensors": big + "vae",
		"text_encoder/model.safetensors": big + "text", "text_encoder/flax_model.msgpack": big,
		"tokenizer/spiece.model": big + "pieces", "tokenizer/tokenizer.json": "{}",
		"safety_checker/model.safetensors": big + "no",
		"single.safetensors":               big + "all in one",
	}}
}

// needed are the files that a job needs of it.
var needed = []string{"LICENSE.txt", "README.md", "model_index.json", "text_encoder/model.safetensors", "tokenizer/spiece.model",
	"tokenizer/tokenizer.json", "transformer/config.json",
	"transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
	"transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
	"transformer/diffusion_pytorch_model.safetensors.index.json", "vae/config.json",
	"vae/diffusion_pytorch_model.safetensors"}

// bench is a hub, a client of it and a cache.
type bench struct {
	*testing.T
	hub   *hubtest.Hub
	cache Cache
	waits []time.Duration
	told  int // number of failures reported as retried
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, cache: Cache(t.TempDir())}
	b.hub = hubtest.New(t, map[string]hubtest.Repo{"org/whole": whole(),
		"org/gated":   {Gated: true, Files: map[string]string{"config.json": "{}", "model.safetensors": strings.Repeat("weights ", 4000)}},
		"org/private": {Private: true, Files: map[string]string{"config.json": "{}"}}})
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", string(b.cache))
	t.Setenv("HF_ENDPOINT", b.hub.URL+"/")
	return b
}

func (b *bench) pull(name string, o Options) (*Pulled, error) {
	b.Helper()
	c, err := NewClient("test")
	if err != nil {
		b.Fatal(err)
	}
	var waits sync.Mutex
	c.wait = func(ctx context.Context, _ int, asked time.Duration) error {
		waits.Lock()
		defer waits.Unlock()
		b.waits = append(b.waits, asked)
		return ctx.Err()
	}
	c.Retrying = func(error, int, int) {
		waits.Lock()
		defer waits.Unlock()
		b.told++
	}
	r, err := ParseRepo(name)
	if err != nil {
		b.Fatal(err)
	}
	return c.Pull(b.Context(), b.cache, r, o)
}

// good pulls and compares every file with the hub's.
func (b *bench) good(name string, o Options) *Pulled {
	b.Helper()
	result, err := b.pull(name, o)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range result.Files {
		got, err := os.ReadFile(filepath.Join(result.Dir, f.Path))
		if err != nil || string(got) != b.hub.Repos[result.Name].Files[f.Path] {
			b.Errorf("%s: other content than on the hub, %v", f.Path, err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(b.cache.folder(result.Name), "blobs", "*.incomplete"))
	if left != nil {
		b.Errorf("left behind: %v", left)
	}
	return result
}

func paths(files []RepoFile) (out []string) {
	for _, f := range files {
		out = append(out, f.Path)
	}
	slices.Sort(out)
	return out
}

// TestPull: the files that a job needs are downloaded with the licence, in the layout of huggingface_hub. A second pull
// downloads nothing, and a pull of another revision only records that revision.
func TestPull(t *testing.T) {
	b := newBench(t)
	var total int64
	result := b.good("org/whole", Options{Begin: func(p *Progress) { total = p.Total }})
	if got := paths(result.Files); !slices.Equal(got, needed) {
		t.Errorf("chose %q", got)
	}
	if result.Licence != "apache-2.0" || result.Commit != hubtest.Commit || result.Fetched != len(needed) || total == 0 ||
		len(result.LeftOut) != 7 {
		t.Errorf("%+v", result)
	}
	folder := filepath.Join(string(b.cache), "models--org--whole")
	if ref, err := os.ReadFile(filepath.Join(folder, "refs", "main")); err != nil || string(ref) != hubtest.Commit {
		t.Errorf("refs/main is %q, %v", ref, err)
	}
	for file, up := range map[string]string{"vae/config.json": "../../../../", "model_index.json": "../../../"} {
		target, err := os.Readlink(filepath.Join(folder, "snapshots", hubtest.Commit, file))
		if want := up + "blobs/" + hubtest.ID(b.hub.Repos["org/whole"].Files[file]); err != nil || target != want[3:] && target != want {
			t.Errorf("%s links to %q, want %q, %v", file, target, want, err)
		}
	}
	b.hub.Asked = nil
	if again := b.good("org/whole@v1", Options{}); again.Fetched != 0 || b.hub.Asked != nil {
		t.Errorf("a second pull fetches %d files: %q", again.Fetched, b.hub.Asked)
	}
	for _, name := range []string{"org/whole", "org/whole@v1", "org/whole@" + hubtest.Commit} {
		r, _ := ParseRepo(name)
		if dir, commit, err := b.cache.Find(r); err != nil || dir != result.Dir || commit != hubtest.Commit {
			t.Errorf("%s is found as %s, %s, %v", name, dir, commit, err)
		}
	}
	for _, name := range []string{"org/whole@v2", "org/other", "org/whole@" + strings.Repeat("a", 40)} {
		r, _ := ParseRepo(name)
		if _, _, err := b.cache.Find(r); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCutConnections: downloads resume after broken connections, with and without ranges, and in a later pull.
func TestCutConnections(t *testing.T) {
	b := newBench(t)
	b.hub.Cut, b.hub.Cuts = 9000, 12
	b.good("org/whole", Options{})
	if !slices.ContainsFunc(b.hub.Asked, func(s string) bool { return strings.HasSuffix(s, "bytes=9000-") }) {
		t.Errorf("no download was resumed: %q", b.hub.Asked)
	}

	b = newBench(t)
	b.hub.Cut, b.hub.Cuts, b.hub.NoRanges = 9000, 3, true
	b.good("org/whole", Options{})

	b = newBench(t) // every answer breaks at once, so the pull gives up
	b.hub.Cut, b.hub.Cuts = 0, 1000
	if _, err := b.pull("org/whole", Options{}); fault.ExitCode(err) != fault.ExitTryAgain ||
		!strings.Contains(err.Error(), "it resumes") || strings.Contains(err.Error(), "secret") {
		t.Errorf("every connection breaks: %v", err)
	}
	r, _ := ParseRepo("org/whole")
	if _, _, err := b.cache.Find(r); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a repository is found: %v", err)
	}
	const vae = "vae/diffusion_pytorch_model.safetensors"
	content := b.hub.Repos["org/whole"].Files[vae]
	part := filepath.Join(b.cache.folder("org/whole"), "blobs", hubtest.ID(content)+".incomplete")
	if err := os.WriteFile(part, []byte(content[:1234]), 0o666); err != nil {
		t.Fatal(err)
	}
	b.hub.Change(func() { b.hub.Cuts, b.hub.Asked = 0, nil })
	b.good("org/whole", Options{})
	if !slices.Contains(b.hub.Asked, vae+" bytes=1234-") {
		t.Errorf("the part of an earlier pull is fetched again: %q", b.hub.Asked)
	}
}

// TestBusyHub: requests to a busy hub are repeated after the time that it states.
func TestBusyHub(t *testing.T) {
	b := newBench(t)
	b.hub.Busy = 2
	b.good("org/whole", Options{})
	if !slices.Equal(b.waits, []time.Duration{7 * time.Second, 7 * time.Second}) {
		t.Errorf("waited %v", b.waits)
	}
	b.hub.Busy = 1000
	if _, err := b.pull("org/whole", Options{}); fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), "503") {
		t.Errorf("a hub that stays busy: %v", err)
	}
}

// TestWrongContent: content with another digest never gets a name in the cache; with verify, later damage is found.
func TestWrongContent(t *testing.T) {
	const big, small = "vae/diffusion_pytorch_model.safetensors", "vae/config.json"
	content := whole().Files
	for _, file := range []string{big, small} {
		b := newBench(t)
		b.hub.Forged[file] = "X" + content[file][1:]
		_, err := b.pull("org/whole", Options{})
		if fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), file+": the received content has the digest") {
			t.Errorf("forged %s: %v", file, err)
		}
		if _, err := os.Stat(filepath.Join(b.cache.folder("org/whole"), "blobs", hubtest.ID(content[file]))); err == nil {
			t.Errorf("forged %s got a name", file)
		}
	}
	b := newBench(t)
	b.hub.Long = true
	if _, err := b.pull("org/whole", Options{}); err == nil || !strings.Contains(err.Error(), "more than the") {
		t.Errorf("a longer file: %v", err)
	}
	b.hub.Long = false
	result := b.good("org/whole", Options{})
	blob := filepath.Join(b.cache.folder("org/whole"), "blobs", hubtest.ID(content[big]))
	if err := os.WriteFile(blob, []byte("X"+content[big][1:]), 0o666); err != nil {
		t.Fatal(err)
	}
	if again, err := b.pull("org/whole", Options{}); err != nil || again.Fetched != 0 {
		t.Errorf("without --verify: %v, %v", again, err)
	}
	if again := b.good("org/whole", Options{Verify: true}); again.Fetched != 1 || again.Dir != result.Dir {
		t.Errorf("%d files were fetched, want the damaged one", again.Fetched)
	}
	// A part that an earlier pull left can be damaged too.
	if err := errors.Join(os.Remove(blob), os.WriteFile(blob+".incomplete", []byte("damaged"), 0o666)); err != nil {
		t.Fatal(err)
	}
	b.good("org/whole", Options{})
	// A blob may have no link in this snapshot: another revision has it.
	link := filepath.Join(result.Dir, big)
	if err := errors.Join(os.Remove(link), os.WriteFile(blob, []byte("X"+content[big][1:]), 0o666)); err != nil {
		t.Fatal(err)
	}
	b.good("org/whole", Options{Verify: true})
	// A link in place of a part leads to a file of somebody else.
	victim := filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.Remove(blob), os.Remove(link), os.WriteFile(victim, []byte("precious"), 0o600),
		os.Symlink(victim, blob+".incomplete")); err != nil {
		t.Fatal(err)
	}
	b.good("org/whole", Options{})
	if kept, err := os.ReadFile(victim); err != nil || string(kept) != "precious" {
		t.Errorf("a file that a link leads to holds %q, %v", kept, err)
	}
}

// TestEndless: if lists or answers of a hub have no end, the pull stops, and the number of received bytes is limited.
func TestEndless(t *testing.T) {
	const big = "vae/diffusion_pytorch_model.safetensors"
	for _, c := range []struct {
		name string
		set  func(h *hubtest.Hub)
		exit int
		want string
	}{
		{"pages", func(h *hubtest.Hub) { h.Endless = true }, fault.ExitFatal, "the list of files has no end"},
		{"sizes that overflow", func(h *hubtest.Hub) {
			h.Sizes = map[string]int64{big: 1 << 49, "vae/config.json": 1 << 49, "model_index.json": 1 << 49}
		}, fault.ExitFatal, "the hub lists files of more than 1125899906842624 bytes in all"},
		{"a size beyond all", func(h *hubtest.Hub) { h.Sizes = map[string]int64{big: 1 << 62} }, fault.ExitFatal,
			"of 4611686018427387904 bytes"},
		{"answers cut short", func(h *hubtest.Hub) { h.Cut, h.Cuts, h.NoRanges = 9000, 1<<30, true }, fault.ExitTryAgain,
			"the connection broke after 9000 bytes"},
		{"answers of a byte", func(h *hubtest.Hub) { h.Cut, h.Cuts = 1, 1<<30 }, fault.ExitTryAgain, "the connection broke after 1 bytes"},
		{"a longer file", func(h *hubtest.Hub) { h.Long = true }, fault.ExitTryAgain, "more than the"},
		{"a page that is no address", func(h *hubtest.Hub) { h.Next = "file:///etc/passwd" }, fault.ExitFatal,
			`an address that begins with "file"`},
		{"a page that is this one", func(h *hubtest.Hub) {
			h.Next = h.URL + "/api/models/org/whole/tree/" + hubtest.Commit + "?recursive=true"
		},
			fault.ExitFatal, "the list of files has no end"},
	} {
		b := newBench(t)
		c.set(b.hub)
		_, err := b.pull("org/whole", Options{})
		if fault.ExitCode(err) != c.exit || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit code %d, %v", c.name, fault.ExitCode(err), err)
		}
		if n := len(b.waits); n > 4*tries {
			t.Errorf("%s: waited %d times", c.name, n)
		}
	}
	t.Log("P18: 8 hubs without an end were left, each with an error that says what was seen")
}

// dripping is a connection that brings a byte a second.
type dripping struct{ gone chan bool }

// Read implements io.Reader.
func (d *dripping) Read(b []byte) (int, error) {
	select {
	case <-d.gone:
		return 0, errors.New("closed")
	case <-time.After(time.Second):
		b[0] = ' '
		return 1, nil
	}
}

// TestDrip: a connection at one byte a second is abandoned like one that sends nothing. A download at a rate that will finish
// continues, however long it takes.
func TestDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dripping{make(chan bool)}
		begun := time.Now()
		p := newPaced(d, time.Minute, func() { close(d.gone) })
		defer p.stop()
		data, err := io.ReadAll(p)
		var broken brokenConnection
		if len(data) < 58 || len(data) > 60 || !errors.As(err, &broken) || time.Since(begun) != time.Minute {
			t.Errorf("%d bytes came within %v, %v", len(data), time.Since(begun), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		const size = 10 << 20
		slow := readerFunc(func(b []byte) (int, error) { time.Sleep(time.Second); return min(len(b), 2<<10), nil })
		begun := time.Now()
		p := newPaced(io.LimitReader(slow, size), time.Minute, func() { t.Error("it was left") })
		defer p.stop()
		if n, err := io.Copy(io.Discard, p); n != size || err != nil || time.Since(begun) < time.Hour {
			t.Errorf("%d bytes came in %v, %v", n, time.Since(begun), err)
		}
	})
}

type readerFunc func(b []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestRefusedRepositories: errors distinguish gated, private and missing repositories, and never contain the token.
func TestRefusedRepositories(t *testing.T) {
	for _, c := range []struct{ name, token, want string }{
		{"org/gated", "", "the repository is gated: accept its conditions at"},
		{"org/gated", "hf_other", "the account of the token has no access"},
		{"org/private", "", "there is no such repository, or it is private"},
		{"org/private", "hf_other", "the token is not valid, or there is no such repository"},
		{"org/none", hubtest.Token, "there is no such repository, or the account of the token does not see it"},
		{"org/whole@v9", "", `the repository has no revision "v9"`},
	} {
		b := newBench(t)
		t.Setenv("HF_TOKEN", c.token)
		_, err := b.pull(c.name, Options{})
		if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hf_") {
			t.Errorf("%s with token %q: %v, want %s", c.name, c.token, err, c.want)
		}
	}
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(string(b.cache), "token"), []byte(hubtest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.good("org/gated", Options{})
	b.good("org/private", Options{})
	t.Setenv("HF_TOKEN", "two words")
	if _, err := NewClient(""); err == nil || strings.Contains(err.Error(), "words") {
		t.Errorf("an invalid token: %v", err)
	}
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, err := NewClient(""); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE is 1") {
		t.Errorf("offline: %v", err)
	}
}

// TestTokenStaysHome: the token is sent only to the hub, whatever address an answer names next.
func TestTokenStaysHome(t *testing.T) {
	for name, set := range map[string]func(h *hubtest.Hub){
		"a link to the next page": func(h *hubtest.Hub) { h.Linked = true },
		"a redirect of a list":    func(h *hubtest.Hub) { h.Sent = true },
		"a redirect of a file":    func(*hubtest.Hub) {},
	} {
		b := newBench(t)
		set(b.hub)
		t.Setenv("HF_TOKEN", hubtest.Token)
		if _, err := b.pull("org/whole", Options{}); err != nil || b.hub.Met != nil {
			t.Errorf("%s: the token went to another host with %q; %v", name, b.hub.Met, err)
		}
		b.good("org/gated", Options{})
	}
}

// TestNoHub: if the hub cannot be reached, the error says to try again.
func TestNoHub(t *testing.T) {
	b := newBench(t)
	t.Setenv("HF_ENDPOINT", "http://127.0.0.1:1")
	if _, err := b.pull("org/whole", Options{}); fault.ExitCode(err) != fault.ExitTryAgain ||
		!strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("no hub: %v", err)
	}
	if len(b.waits) != tries-1 || b.told != tries-1 {
		t.Errorf("%d retries, but %d reported", len(b.waits), b.told)
	}
}

// TestFullDisk: if files do not fit on the disk, the pull fails before it downloads anything.
func TestFullDisk(t *testing.T) {
	b := newBench(t)
	b.hub.Sizes = map[string]int64{"vae/config.json": 1 << 49}
	_, err := b.pull("org/whole", Options{})
	if fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), "make room in "+string(b.cache)) {
		t.Errorf("a full disk: %v", err)
	}
	if b.hub.Asked != nil {
		t.Errorf("something was fetched: %q", b.hub.Asked)
	}
}

// TestHostileLists: names that lead out of the cache, and lists without digests, are refused.
func TestHostileLists(t *testing.T) {
	for _, name := range []string{"../../evil.json", "/etc/evil.json", `a\b.json`, "a/../../../b.json"} {
		b := newBench(t)
		b.hub.Repos["org/evil"] = hubtest.Repo{Files: map[string]string{name: "{}"}}
		if _, err := b.pull("org/evil", Options{}); err == nil || !strings.Contains(err.Error(), "could lead out of the cache") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "..", "zz", strings.Repeat("g", 40), strings.Repeat("a", 39)} {
		if err := (RepoFile{Path: "a", ID: id}).check(); err == nil {
			t.Errorf("digest %q passes", id)
		}
	}
	for _, name := range []string{"", "one", "a/b/c", "../x", "a/..", "a/b--c", "a/b@", "a/b@../c", "a/b@/etc", "-a/b"} {
		if _, err := ParseRepo(name); err == nil {
			t.Errorf("the name %q passes", name)
		}
	}
}
