package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/system/testaid"
)

// canaries are planted secrets and prompts that must not appear anywhere. The keys of the map describe them.
type canaries map[string]string

// plant returns a text that occurs nowhere else.
func (c canaries) plant(what string) string {
	sum := sha256.Sum256([]byte(what))
	c[what] = "Canary" + hex.EncodeToString(sum[:10])
	return c[what]
}

// sung checks that a text contains none of the canaries. where describes the text.
func (c canaries) sung(t *testing.T, where, text string) {
	t.Helper()
	for what, canary := range c {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s shows the %s: ... %s", where, what, text[max(0, at-200):min(len(text), at+60)])
		}
	}
}

// mayHavePrompts are the files of an output that may contain prompts.
func mayHavePrompts(name string) bool {
	for _, part := range []string{"tables/", "ledger/", "index.html", "metadata.parquet", "README.md", "page", "names/"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// TestPromiseP12: no secret is in any file, log or message, and no prompt in logs, messages, names of files and facts of runs,
// in runs that succeed and in those that fail.
func TestPromiseP12(t *testing.T) {
	secrets, prompts := canaries{}, canaries{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // a hook, a hub and a proxy
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintln(w, "refused:", r.URL, r.Header)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	s := newShell(t)
	s.env = append(s.env, "LATENTBEAM_CACHE="+t.TempDir(), "HOME="+t.TempDir())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "API_KEY", "OTHER_KEY"} {
		s.env = append(s.env, name+"="+secrets.plant(name))
	}
	s.env = append(s.env, "AWS_REGION=eu-west-1", "HF_ENDPOINT="+server.URL,
		"HOOK="+server.URL+"/hook?token="+secrets.plant("token of a hook"),
		"USERHOOK=http://user:"+secrets.plant("password of a hook")+"@"+host+"/hook",
		"AWS_ENDPOINT_URL_S3=http://user:"+secrets.plant("password of an endpoint")+"@"+host,
		"GOOGLE_APPLICATION_CREDENTIALS="+filepath.Join(s.dir, "google.json"))
	s.write("google.json", `{"type": "service_account", "private_key": "`+secrets.plant("key of Google")+`", "client_email": "a@b"}`)
	token, other := secrets.plant("token of workers"), secrets.plant("other token of workers")
	s.write("token", token+token)
	s.write("othertoken", other+other)
	for _, file := range []string{"token", "othertoken"} {
		if err := os.Chmod(filepath.Join(s.dir, file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, key := testaid.Certificate(t, false)
	secrets["key that signs"] = strings.Split(string(key), "\n")[1]
	s.write("certificate.pem", string(certificate))
	s.write("key.pem", string(key))
	s.write("bad.pem", "-----BEGIN PRIVATE KEY-----\n"+secrets.plant("damaged key")+"\n-----END PRIVATE KEY-----\n")
	signed := "https://" + host + "/prompts.csv?X-Amz-Credential=" + secrets.plant("credential of a signed address") + "&X-Amz-Signature=" +
		secrets.plant("signature") + "&token=" + secrets.plant("token of an address")
	s.write("leak.sh", "echo the key is $API_KEY >&2; echo $OTHER_KEY >&2; exit 3\n")
	s.write("prompts.csv", "id,prompt,negative_prompt,seed,height\na,a circle "+prompts.plant("prompt")+",dark "+prompts.plant("negative prompt")+
		",1,16\nb,"+strings.Repeat(prompts.plant("long prompt")+" ", 6000)+",,,\nc,wrong "+prompts.plant("prompt of a bad row")+",,a circle and "+
		prompts.plant("prompt as a seed")+",\nd,x "+prompts.plant("prompt of a bad size")+",,,13\n")
	s.write("media.csv", "id,path,caption\na,missing.mp4,"+prompts.plant("caption")+"\n")
	s.write("bad.jsonl", `{"id": "a", "prompt": {"x": "`+prompts.plant("prompt in a map")+`"}}`+"\n"+`{"id": "b", "prompt": "`+
		prompts.plant("prompt of half a line")+"\n")
	s.write("job.yaml", small+"on_complete: [\"${HOOK}\", \"${USERHOOK}\"]\n")
	s.write("leak.yaml", strings.Replace(small, "[encode_text, denoise",
		"[{exec: {command: [sh, leak.sh], takes: prompt, gives: prompt, secrets: "+
			"[API_KEY, OTHER_KEY]}}, encode_text, denoise", 1))
	words := 0
	for _, args := range [][]string{
		{"plan", "job.yaml"}, {"run", "job.yaml", "--dry-run"},
		{"run", "job.yaml", "--log-format", "json", "--log-level", "debug", "--set", "resources.checkpoint_interval=1step"},
		{"run", "job.yaml", "--profile", "--set", "input.prompts=bad.jsonl", "--output", "out2"},
		{"run", "job.yaml", "--set", "input={media: media.csv}", "--set", "stages=[encode_vae, encode_text]", "--set",
			"output.write=[latents, embeddings]", "--output", "out3", "--log-level", "debug"},
		{"run", "leak.yaml", "--output", "out4", "--log-level", "debug"},
		{"run", "job.yaml", "--output", "s3://bucket/one", "--log-level", "debug"},
		{"run", "job.yaml", "--output", "gs://bucket/one", "--log-level", "debug"},
		{"run", "job.yaml", "--set", "input.prompts=" + signed, "--output", "out5", "--log-level", "debug"},
		{"run", "job.yaml", "--set", "input.prompts=gs://user:" + secrets["signature"] + "@bucket/x.csv"},
		{"run", "job.yaml", "--set", "model=hf://private/model", "--output", "out6"},
		{"run", "job.yaml", "--set", "resources.hosts=[\"" + host + "\"]", "--set", "resources.token_file=token", "--output", "out7"},
		{"run", "job.yaml", "--output", "out8", "--log-level", "debug", "--set",
			"stages.encode_video.marks=[iptc, {c2pa: {certificate: certificate.pem, key: key.pem}}]"},
		{"run", "job.yaml", "--output", "out9", "--log-level", "debug", "--set",
			"stages.encode_video.marks=[{c2pa: {certificate: certificate.pem, key: bad.pem}}]"},
		{"mark", "out", "--marks", "c2pa", "--certificate", "certificate.pem", "--key", "key.pem"},
		{"worker", "--listen", "bad address", "--token-file", "token"},
		{"pull", "private/model"}, {"retry", "out"}, {"status", "out"}, {"status", "out", "--json"}, {"verify", "out"}, {"explain", "job.yaml"},
		{"diff", "out", "out2"}, {"clean", "out"}, {"doctor"}, {"copy", "out", "s3://bucket/two"}, {"inspect", "google.json"},
		{"run", "job.yaml"},
	} {
		cmd, stdout, stderr := s.command(args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		_ = cmd.Wait()
		stop.Stop()
		said := stdout.String() + stderr.String()
		words += len(said)
		where := "latentbeam " + strings.Join(args[:min(2, len(args))], " ")
		if !strings.Contains(strings.Join(args, " "), secrets["signature"]) { // else the command line itself contains the secret
			secrets.sung(t, where, said)
		} else if strings.Count(said, secrets["signature"]) > 0 {
			t.Errorf("%s: the message repeats a secret: %s", where, said)
		}
		prompts.sung(t, where, said)
	}
	files := s.search(t, secrets, prompts)
	s.inBuckets(t, prompts)
	t.Logf("P12: %d secrets and %d prompts planted, %d bytes of messages and %d files searched", len(secrets), len(prompts), words, files)
}

// search checks all files that the program wrote.
func (s shell) search(t *testing.T, secrets, prompts canaries) (files int) {
	t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.dir, path)
		if err != nil || d.IsDir() || !strings.HasPrefix(name, "out") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		secrets.sung(t, name, string(data))
		prompts.sung(t, "the name of a file", name)
		if !mayHavePrompts(filepath.ToSlash(name)) {
			prompts.sung(t, name, string(data))
		}
		return nil
	})
	if err != nil || files < 20 {
		t.Errorf("searched %d files, %v", files, err)
	}
	return files
}

// inBuckets runs the job in a bucket and checks that its key is shown nowhere.
func (s shell) inBuckets(t *testing.T, prompts canaries) {
	t.Helper()
	s.env = append(slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "AWS_") }), buckettest.S3(t).Env...)
	s.run(1, "run", "job.yaml", "--output", "s3://bucket/jobs/one", "--log-level", "debug")
	said := s.run(0, "copy", "s3://bucket/jobs/one", "outcopy")
	prompts.sung(t, "a run in a bucket", said)
	s.search(t, canaries{"key of the bucket": buckettest.SecretKey}, prompts)
}
