package marks

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/media/c2pa"
	"latentbeam/internal/media/timestamp"
	"latentbeam/internal/system/testaid"
)

func signer(t testing.TB, edwards bool) *c2pa.Signer {
	t.Helper()
	s, err := c2pa.NewSigner(testaid.Certificate(t, edwards))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var told = Subject{ID: id, Model: "tiny", Weights: "0123", Parameters: map[string]string{"prompt": "a <red> & blue \"thing\"", "seed": "7"}}

// stamping returns a signer whose signatures have time stamps.
func stamping(t testing.TB) *c2pa.Signer {
	t.Helper()
	authority := timestamp.New(testaid.NewAuthority(t).URL)
	return signer(t, false).WithTimeStamps(func(message []byte) ([]byte, error) { return authority.Stamp(t.Context(), message) })
}

// TestTimeStamps: a signature with a time stamp says when an authority saw it. Signing again gives a file of the same length. A changed
// time stamp is reported as invalid, but the signature of the file is still valid.
func TestTimeStamps(t *testing.T) {
	s := stamping(t)
	files, plain := signed(t, s)
	again, _ := signed(t, s)
	for name, data := range files {
		f := manifestOf(t, data)
		at, err := time.Parse(time.RFC3339, f.Time)
		if f.Problem != "" || f.StampProblem != "" || err != nil || time.Since(at) > time.Minute || !strings.Contains(f.StampedBy, "CN=Test Time Stamps") {
			t.Errorf("%s: %+v", name, f)
		}
		if len(again[name]) != len(data) {
			t.Errorf("%s: %d and %d bytes", name, len(data), len(again[name]))
		}
		if out, err := Strip(data, filepath.Ext(name)); err != nil || !bytes.Equal(out, plain[name]) {
			t.Errorf("%s: Strip does not restore the file: %v", name, err)
		}
		bad := bytes.Clone(data)
		bad[bytes.Index(bad, []byte("Test Time Stamps"))] ^= 1
		if name != "a.png" { // whose chunk has a checksum
			if f := manifestOf(t, bad); f.Problem != "" || f.StampProblem == "" || f.Time != "" {
				t.Errorf("%s: a time stamp that was changed: %+v", name, f)
			}
		}
	}
	files, _ = signed(t, signer(t, false))
	if f := manifestOf(t, files["a.mp4"]); f.Time != "" || f.StampProblem != "" {
		t.Errorf("without a time stamp: %+v", f)
	}
}

// signed lists files with and without a signature.
func signed(t testing.TB, s *c2pa.Signer) (files map[string][]byte, plain map[string][]byte) {
	t.Helper()
	pngFile, _ := pictures(t)
	files, plain = map[string][]byte{}, map[string][]byte{"a.mp4": video(t), "behind.mp4": behind(t, video(t)), "wide.mp4": wide(t, video(t)),
		"described.mp4": described(t, video(t)), "a.png": pngFile}
	for name, data := range plain {
		out, err := Put(data, filepath.Ext(name), Wanted{IPTC: true, AIGC: true, Signer: s}, told)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files[name] = out
	}
	return files, plain
}

// manifestOf returns the c2pa mark of a file.
func manifestOf(t testing.TB, data []byte) Found {
	t.Helper()
	found, err := Inspect(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Name == C2PA {
			return f
		}
	}
	t.Fatalf("no manifest: %v", found)
	return Found{}
}

func TestSign(t *testing.T) {
	for _, edwards := range []bool{false, true} {
		s := signer(t, edwards)
		files, plain := signed(t, s)
		for name, data := range files {
			again, err := Put(plain[name], filepath.Ext(name), Wanted{IPTC: true, AIGC: true, Signer: s}, told)
			if err != nil || !bytes.Equal(again, data) {
				t.Errorf("%s: equal arguments gave other bytes: %v", name, err)
			}
			if out, err := Strip(data, filepath.Ext(name)); err != nil || !bytes.Equal(out, plain[name]) {
				t.Errorf("%s: Strip does not restore the file: %v", name, err)
			}
			if strings.HasSuffix(name, ".mp4") && !bytes.Equal(samples(t, data), samples(t, plain[name])) {
				t.Errorf("%s: offsets of frames are wrong", name)
			}
			f := manifestOf(t, data)
			if f.Problem != "" || f.Value != Generated || f.Generator != "latentbeam" || !strings.Contains(f.Signer, "CN=Test Signer") || f.SelfSigned {
				t.Errorf("%s: %+v", name, f)
			}
			for at := range data { // every flipped bit is found, except in bytes that the specification excludes
				if at%7 != 0 && len(data) > 4000 {
					continue
				}
				bad := bytes.Clone(data)
				bad[at] ^= 1
				found, err := Inspect(bad)
				holds := false
				for _, f := range found {
					holds = holds || f.Name == C2PA && f.Problem == ""
				}
				if err == nil && holds && !leftOutByte(t, data, at) {
					t.Fatalf("%s: bit 0 of byte %d is flipped, and the signature is still valid", name, at)
				}
			}
		}
	}
}

// leftOutByte reports whether no digest covers a byte. These are ftyp and the headers around the manifest; digests inside the manifest
// cover its content.
func leftOutByte(t *testing.T, data []byte, at int) bool {
	t.Helper()
	if bytes.HasPrefix(data, []byte(pngSignature)) {
		list, err := chunks(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.kind == pngCredentials && at >= c.start && at < c.end {
				return true // covered by the signature, or a header
			}
		}
		return false
	}
	top, err := boxes(data, 0, len(data), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range top {
		if at >= b.start && at < b.end && (b.kind == "ftyp" || storeOf(data, b) != nil) {
			return true
		}
	}
	return false
}

// TestSignedByOthers: the reader of the C2PA project accepts signed files as valid, with an untrusted signer, and detects one flipped byte
// of a frame. LATENTBEAM_C2PA is a Python with c2pa-python.
func TestSignedByOthers(t *testing.T) {
	python := os.Getenv("LATENTBEAM_C2PA")
	if python == "" {
		t.Skip("NOT TESTED: set LATENTBEAM_C2PA to a Python with c2pa-python (pip install c2pa-python)")
	}
	dir := t.TempDir()
	for what, s := range map[string]*c2pa.Signer{"es256": signer(t, false), "ed25519": signer(t, true), "time stamps": stamping(t)} {
		files, _ := signed(t, s)
		stamps := 0
		if what == "time stamps" {
			stamps = 1
		}
		for name, data := range files {
			bad := bytes.Clone(data)
			if at := bytes.Index(bad, []byte("mdat")); at > 0 {
				bad[at+30] ^= 0x10
			} else {
				at = bytes.Index(bad, []byte("IDAT"))
				bad[at+20] ^= 0x10
			}
			for what, file := range map[string][]byte{"": data, "bad-": bad} {
				path := filepath.Join(dir, what+name)
				if err := os.WriteFile(path, file, 0o600); err != nil {
					t.Fatal(err)
				}
				got := readByOthers(t, python, path)
				ok := len(got.Failures) == 1 && got.Failures[0] == "signingCredential.untrusted"
				if what == "bad-" {
					ok = strings.Contains(strings.Join(got.Failures, " "), "mismatch")
				}
				if time := strings.Count(strings.Join(got.Successes, " "), "timeStamp.validated"); time != stamps {
					t.Errorf("%s%s: %d time stamps of %d: %v", what, name, time, stamps, got)
				}
				if !ok || got.Title != "" || !strings.Contains(got.Store, "c2pa.created") || !strings.Contains(got.Store, Generated) {
					t.Errorf("%s%s: %v\n%s", what, name, got.Failures, got.Store)
				}
			}
		}
	}
}

type readOfOthers struct {
	Failures  []string
	Successes []string
	Others    []string
	Title     string
	Store     string
}

func readByOthers(t *testing.T, python, path string) (r readOfOthers) {
	t.Helper()
	const program = `
import c2pa, json, sys
reader = c2pa.Reader(sys.argv[1])
store = json.loads(reader.json())
found = store.get("validation_results", {}).get("activeManifest", {})
codes = {kind: [f["code"] for f in found.get(kind, [])] for kind in ("failure", "success", "informational")}
print(json.dumps({"Failures": codes["failure"], "Successes": codes["success"], "Others": codes["informational"], "Store": json.dumps(store)}))
`
	out, err := exec.Command(python, "-c", program, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// TestSignedInTime: putting all marks on a file takes less than 5 ms.
func TestSignedInTime(t *testing.T) {
	s, file := signer(t, false), video(t)
	file = append(file, newBox("free", make([]byte, 200<<10))...) // a usual file size
	const files = 1000
	began := time.Now()
	for range files {
		if _, err := Put(file, ".mp4", Wanted{IPTC: true, AIGC: true, Signer: s}, told); err != nil {
			t.Fatal(err)
		}
	}
	each := time.Since(began) / files
	t.Logf("%v a file of %d bytes", each, len(file))
	if each > 5*time.Millisecond {
		t.Errorf("%v a file", each)
	}
}

func TestSignersThatAreRefused(t *testing.T) {
	chain, key := testaid.Certificate(t, false)
	_, other := testaid.Certificate(t, false)
	_, leafless, _ := bytes.Cut(chain, []byte("-----END CERTIFICATE-----\n"))
	for name, c := range map[string]struct {
		chain, key []byte
		want       string
	}{
		"no certificate":                      {nil, key, "no PEM block CERTIFICATE"},
		"no key":                              {chain, nil, "no PEM block PRIVATE KEY"},
		"another key":                         {chain, other, "for another key"},
		"an authority":                        {leafless, key, "certificate authority"},
		"an encrypted key":                    {chain, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), "encrypted"},
		"a key that is not one":               {chain, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "PKCS #8"},
		"a certificate that cannot be parsed": {[]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), key, "first certificate"},
	} {
		if _, err := c2pa.NewSigner(c.chain, c.key); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	files, _ := signed(f, signer(f, false))
	for _, data := range files {
		top, err := boxes(data, 0, len(data), true)
		for _, b := range top {
			if store := storeOf(data, b); err == nil && store != nil {
				f.Add(bytes.Clone(store))
			}
		}
	}
	file := video(f)
	f.Fuzz(func(_ *testing.T, store []byte) {
		_ = signature(file, "", store) // it must not panic and must end
		_ = c2pa.Ours(store)
	})
}
