package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
)

// TestInspectMarks: inspect lists marks of a signed video, and says when the signature does not hold any more.
func TestInspectMarks(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	certificate, key := testaid.Certificate(t, false)
	s.write("certificate.pem", string(certificate))
	s.write("key.pem", string(key))
	s.run(0, "run", "job.yaml", "--set", "output.path=out", "--set",
		"stages.encode_video.marks=[iptc, aigc, {c2pa: {certificate: certificate.pem, key: key.pem}}]")
	videos, err := filepath.Glob(filepath.Join(s.dir, "out", "videos", "*", "*.mp4"))
	if err != nil || len(videos) != 3 {
		t.Fatalf("got videos %q, %v", videos, err)
	}
	s.says(s.run(0, "inspect", videos[0]), "iptc", "trainedAlgorithmicMedia", "aigc", "ProduceID", "holds for the file",
		"CN=Test Signer", "nobody has checked", "latentbeam")
	data, err := os.ReadFile(videos[0])
	if err != nil {
		t.Fatal(err)
	}
	data[strings.Index(string(data), "mdat")+20] ^= 1
	s.write("bad.mp4", string(data))
	s.says(s.run(1, "inspect", "bad.mp4"), "does not hold: the file was changed after it was signed")
	s.write("cut.mp4", string(data[:len(data)-5]))
	s.says(s.run(1, "inspect", "cut.mp4"), "damaged")
	s.write("no.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\x00IEND\xae\x42\x60\x82")
	s.says(s.run(0, "inspect", "no.png"), "no marks")
	page, err := os.ReadFile(filepath.Join(s.dir, "out", "index.html"))
	if err != nil || !strings.Contains(string(page), `"Marked as synthetic","iptc, aigc, c2pa"`) {
		t.Error("the gallery does not say that the videos are marked as synthetic")
	}
}
