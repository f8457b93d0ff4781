package pipelines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/browser"
	"latentbeam/internal/media/c2pa"
	"latentbeam/internal/media/marks"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// signing are the files of a certificate and its key.
type signing struct {
	certificate, key string // paths
	secret           []byte // a line of the key
}

func newSigning(t *testing.T) (s signing) {
	t.Helper()
	certificate, key := testaid.Certificate(t, false)
	dir := t.TempDir()
	s.certificate, s.key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(s.certificate, certificate, 0o600))
	must(t, os.WriteFile(s.key, key, 0o600))
	s.secret = bytes.Split(key, []byte("\n"))[1]
	return s
}

// stages are those of a job that signs.
func (s signing) stages(more string) string {
	return fmt.Sprintf("[encode_text, denoise, decode_vae, guard, encode_video: {marks: [iptc, aigc, {c2pa: {certificate: %q, key: %q%s}}]}]",
		s.certificate, s.key, more)
}

// unsigned counts the videos without a signature that holds.
func unsigned(t *testing.T, out string) (n int) {
	t.Helper()
	for name, data := range filesBelow(t, out, "videos") {
		found, err := marks.Inspect(data)
		must(t, err)
		signed := false
		for _, f := range found {
			signed = signed || f.Name == marks.C2PA && f.Problem == "" && f.Value == marks.Generated
		}
		if !signed {
			t.Logf("%s: %v", name, found)
			n++
		}
	}
	return n
}

// TestTimeStamps: where an authority is named, videos are published, and then signed with its time stamps. One that does not answer is told
// before the first row; one that fails later leaves videos without a signature, which the next run signs.
func TestTimeStamps(t *testing.T) {
	s, authority := newSigning(t), testaid.NewAuthority(t)
	j := newJob(t, diskTable)
	j.stages = s.stages(fmt.Sprintf(", time_stamp_authority: %q", authority.URL))
	var answered atomic.Int64
	authority.Answer = func(w http.ResponseWriter) bool {
		if answered.Add(1) == 1 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	if _, err := j.run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "403 Forbidden") || !strings.Contains(err.Error(), "run the job again") {
		t.Errorf("an authority that fails behind its first answer: %v", err)
	}
	if n := unsigned(t, j.out); n != 5 {
		t.Errorf("%d videos have no signature, want 5", n)
	}
	if v := verified(t, j.out); !v.Sound() || v.Undigested > 0 || v.Counts[audit.Unsigned] != 5 {
		t.Errorf("%+v", v)
	}
	authority.Answer = nil
	j.computes(t, 0)
	asked := authority.Asked.Load()
	if n, stamps := unsigned(t, j.out), stamped(t, j.out); n != 0 || stamps != 5 {
		t.Errorf("%d videos have no signature, %d a time stamp", n, stamps)
	}
	if v := verified(t, j.out); !v.Sound() || v.Undigested > 0 {
		t.Errorf("%+v", v)
	}
	j.computes(t, 0)
	if now := authority.Asked.Load(); now != asked {
		t.Errorf("a run with nothing to do asked the authority %d times", now-asked)
	}

	sharded := j.elsewhere(t)
	for i := range 2 {
		shard := sharded
		shard.opts.Shard, shard.opts.Shards = i, 2
		shard.mustRun(t)
	}
	if n := stamped(t, sharded.out); n != 5 {
		t.Errorf("shards: %d time stamps", n)
	}
	if d, err := audit.Compare(t.Context(), openDir(t, j.out), openDir(t, sharded.out)); err != nil || !d.Equal() || d.Marks != nil {
		t.Errorf("outputs with other time stamps: %+v, %v", d, err)
	}
	plain := j.elsewhere(t)
	plain.stages = s.stages("")
	plain.mustRun(t)
	done, err := plain.changeMarksIn(t.Context(), config.Marks{Given: true, IPTC: true, AIGC: true, C2PA: true, Certificate: s.certificate, Key: s.key,
		TimeStampAuthority: authority.URL})
	if err != nil || done.Rows != 5 || stamped(t, plain.out) != 5 {
		t.Errorf("mark: %+v, %v", done, err)
	}
	if _, err := plain.run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), authority.URL) {
		t.Errorf("a job that names no authority, and an output that has one: %v", err)
	}

	authority.Close()
	refused := j.elsewhere(t)
	refused.stages = s.stages(", time_stamp_authority: \"http://user:word@localhost\"")
	if _, err := refused.run(); err == nil || !strings.Contains(err.Error(), "authorities that want one are not supported") {
		t.Errorf("an authority with a password: %v", err)
	}
}

// stamped counts the videos whose signature has a time stamp that holds.
func stamped(t *testing.T, out string) (n int) {
	t.Helper()
	for _, data := range filesBelow(t, out, "videos") {
		found, err := marks.Inspect(data)
		must(t, err)
		for _, f := range found {
			if f.Name == marks.C2PA && f.Problem == "" && f.StampProblem == "" && f.Time != "" {
				n++
			}
		}
	}
	return n
}

// TestSigned: videos and stills of a job with a key are signed, in equal bytes by runs, shards and mark, and the key is in no file of the
// output. Another certificate, or none, is refused.
func TestSigned(t *testing.T) {
	s := newSigning(t)
	j := newJob(t, diskTable)
	j.stages = s.stages("")
	j.mustRun(t)
	if n := unsigned(t, j.out); n > 0 {
		t.Errorf("%d videos are not signed", n)
	}
	if v := verified(t, j.out); !v.Sound() || v.Undigested > 0 {
		t.Errorf("%+v", v)
	}
	j.computes(t, 0)
	sets := j.elsewhere(t)
	sets.sets = []string{"resources.workers=3", "stages.denoise.sequence_parallel=3", "resources.batch_size=1"}
	sets.mustRun(t)
	samePublished(t, "a set of three workers", j.out, sets.out)
	sharded := j.elsewhere(t)
	for i := range 2 {
		shard := sharded
		shard.opts.Shard, shard.opts.Shards = i, 2
		shard.mustRun(t)
	}
	samePublished(t, "shards", j.out, sharded.out)
	plain := j.elsewhere(t)
	plain.stages = ""
	plain.mustRun(t)
	done, err := plain.changeMarksIn(t.Context(), config.Marks{Given: true, IPTC: true, AIGC: true, C2PA: true, Certificate: s.certificate, Key: s.key})
	if err != nil || done.Rows != 5 {
		t.Errorf("%+v, %v", done, err)
	}
	samePublished(t, "mark", j.out, plain.out)
	plain.computes(t, 0) // needs no key
	for _, out := range []string{j.out, sharded.out, plain.out} {
		must(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, s.secret) {
				t.Errorf("%s holds the key", path)
			}
			return err
		}))
	}

	for want, list := range map[string]string{"names no key": "", "signed with the certificate": newSigning(t).stages("")} {
		other := j
		other.stages, other.sets = list, []string{"defaults.guidance_scale=3"}
		if _, err := other.run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	path := filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, "a")[0]))
	must(t, os.Remove(path))
	j.computes(t, 1)
	samePublished(t, "a video made anew", sharded.out, j.out)
}

// TestSignedWithPrompt: a manifest says the prompt where the job wants it, and the model.
func TestSignedWithPrompt(t *testing.T) {
	s := newSigning(t)
	j := newJob(t, "id,prompt\na,a red circle that nobody else asks for\n")
	for more, want := range map[string]bool{"": false, ", prompt: true": true} {
		j := j.elsewhere(t)
		j.stages = s.stages(more)
		j.mustRun(t)
		data := filesBelow(t, j.out, "videos")
		for name, file := range data {
			if says := bytes.Contains(file, []byte("nobody else asks for")); says != want {
				t.Errorf("%q: %s says the prompt: %v", more, name, says)
			}
			if !bytes.Contains(file, []byte("latentbeam.model")) || !bytes.Contains(file, []byte("dtiny")) {
				t.Errorf("%q: %s does not say the model", more, name)
			}
		}
	}
}

// TestSignersOfJobs: what is wrong with the option is told before anything is computed.
func TestSignersOfJobs(t *testing.T) {
	s := newSigning(t)
	_, otherKey := testaid.Certificate(t, false)
	must(t, os.WriteFile(s.key+".other", otherKey, 0o600))
	key, err := os.ReadFile(s.key)
	must(t, err)
	for list, want := range map[string]string{
		fmt.Sprintf("{certificate: %q}", s.certificate):                                    "certificate and key are both needed",
		fmt.Sprintf("{certificate: %q, key: %q}", s.certificate+".none", s.key):            "no such file",
		fmt.Sprintf("{certificate: %q, key: %q}", s.certificate, s.key+".other"):           "for another key",
		fmt.Sprintf("{certificate: %q, key: %q}", s.certificate, string(key)):              "give the path of a file",
		fmt.Sprintf("{certificate: %q, key: %q, prompt: 1}", s.certificate, s.key):         "must be true or false",
		fmt.Sprintf("{certificate: %q, key: %q, time_stamp: \"x\"}", s.certificate, s.key): "it has no option time_stamp",
	} {
		j := newJob(t, diskTable)
		j.stages = "[encode_text, denoise, decode_vae, encode_video: {marks: [{c2pa: " + list + "}]}]"
		_, err := j.run()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
		if err != nil && strings.Contains(err.Error(), string(s.secret)) {
			t.Error("an error repeats the key")
		}
		if _, err := os.Stat(filepath.Join(j.out, "videos")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something was computed", list)
		}
	}
}

// TestSubmitterSigns: what workers without the key have published gets the signature of the submitter, in the bytes of a run that had it.
func TestSubmitterSigns(t *testing.T) {
	s := newSigning(t)
	want := newJob(t, diskTable)
	want.stages = s.stages("")
	want.mustRun(t)
	j := want.elsewhere(t)
	j.stages = ""
	j.mustRun(t)
	output := openDir(t, j.out)
	r, _, err := marking.Read(t.Context(), openDir(t, want.out))
	must(t, err)
	must(t, r.Write(t.Context(), output))
	certificate, err := os.ReadFile(s.certificate)
	must(t, err)
	key, err := os.ReadFile(s.key)
	must(t, err)
	signer, err := c2pa.NewSigner(certificate, key)
	must(t, err)
	l, err := ledger.Open(t.Context(), output)
	must(t, err)
	defer l.Close()
	var weights string
	for digest := range r.Models {
		weights = digest
	}
	rows := func(context.Context) iter.Seq2[*stages.Element, error] {
		return func(yield func(*stages.Element, error) bool) {
			for _, row := range readRows[schemas.VideoRow](t, j.out, "videos") {
				key, err := schemas.ParseKey(row.Key)
				if !yield(&stages.Element{Key: key, Row: schemas.PromptRow{Prompt: row.Prompt}}, err) {
					return
				}
			}
		}
	}
	done, err := marking.Sign(t.Context(), output, l, &marking.Marker{Record: r, Signer: signer, Weights: weights}, rows(t.Context()))
	if err != nil || done.Rows != 5 {
		t.Errorf("%+v, %v", done, err)
	}
	samePublished(t, "signed at the end", want.out, j.out)
}

// TestSignedPlays: a browser plays files with marks and a signature to their end, and the gallery shows the sign of each.
func TestSignedPlays(t *testing.T) {
	testaid.Long(t, "starts a browser")
	j := job{prompts: writeTable(t, "p.csv", "id,prompt\na,a red circle moves left\nb,a blue square\n"), out: filepath.Join(t.TempDir(), "out"),
		sets: []string{"defaults.height=64", "defaults.width=64", "defaults.num_frames=8", "defaults.num_inference_steps=2"}}
	j.stages = newSigning(t).stages("")
	j.mustRun(t)
	if n := unsigned(t, j.out); n > 0 {
		t.Fatalf("%d videos are not signed", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	page, err := browser.Open(ctx, browser.Window{Width: 900, Height: 600})
	if errors.Is(err, browser.ErrNone) {
		t.Skip(err)
	}
	must(t, err)
	defer page.Close()
	must(t, page.Go("file://"+filepath.Join(j.out, "index.html")))
	var got struct {
		H264          string // empty: the browser was built without a decoder
		Played, Signs int
		Failed        []string // what each file that was not played says
	}
	must(t, page.Eval(`(async () => {
		const files = [...new Set([...document.querySelectorAll('video')].map((v) => v.currentSrc || v.src))];
		const failed = [];
		const played = await Promise.all(files.map((file) => new Promise((done) => {
			const v = document.createElement('video');
			const fail = (why) => { failed.push(why + ' at ' + v.currentTime + ' s, width ' + v.videoWidth); done(false); };
			v.muted = true; v.onerror = () => fail(v.error.message);
			v.onended = () => v.videoWidth === 64 && v.currentTime > 0.5 ? done(true) : fail('ended');
			v.src = file; v.play().catch((e) => fail(String(e)));
		})));
		return {h264: document.createElement('video').canPlayType('video/mp4; codecs="avc1.42E01E"'),
			played: played.filter(Boolean).length, failed: failed,
			signs: [...document.querySelectorAll('.card')].filter((c) => c.innerText.includes('synthetic')).length};
	})()`, &got))
	if got.H264 == "" {
		t.Skip("this browser has no H.264")
	}
	if got.Played != 2 || got.Signs != 2 || len(page.Errors) > 0 {
		t.Errorf("%+v, %q", got, page.Errors)
	}
}
