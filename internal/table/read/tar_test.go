package read

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/source"
	"latentbeam/internal/table/tabletest"
)

// TestTarSamples: names decide what is a sample, the video goes before its picture, and only places of media are read.
func TestTarSamples(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	big := strings.Repeat("v", 3*windowBytes)
	for _, m := range [][2]string{{"d/", ""}, {"d/._a.mp4", "x"}, {"d/a.jpg", "j"}, {"d/a.mp4", big},
		{"d/a.json", `{"text": "t", "caption": "c", "n": 1}`},
		{"d/b.seg.MOV", "m"}, {"d/b.txt", " two words \n"}, {"e/b.json", `{"text": "x"}`}, {"e/b.gif", "g"}} {
		h := &tar.Header{Name: m[0], Mode: 0o644, Size: int64(len(m[1])), Format: tar.FormatPAX,
			PAXRecords: map[string]string{"LB.x": strings.Repeat("y", 600)}}
		if strings.HasSuffix(m[0], "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readMedia(path, true)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row := range strings.SplitSeq(got, "|") {
		at, caption, _ := strings.Cut(row, " ")
		m, ok := source.ParseMember(at)
		if !ok || m.File != path {
			t.Fatalf("row %q names no member", row)
		}
		text := b.Bytes()[m.Offset:][:m.Size]
		rows = append(rows, m.Name+" "+string(text[0])+" "+caption)
	}
	want := "d/a.mp4 v c|d/b.seg.MOV m two words|e/b.gif g x"
	if got := strings.Join(rows, "|"); got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// TestCells: rows of a parquet file with media in it can be read in any order.
func TestCells(t *testing.T) {
	type row struct {
		Video []byte `parquet:"video,optional"`
	}
	rows := make([]row, 20)
	for i := range rows {
		rows[i].Video = bytes.Repeat([]byte{byte(i), 0xff}, 1000*i)
	}
	rows[3].Video = nil
	path := tabletest.WriteFile(t, rows, parquet.MaxRowsPerRowGroup(6))
	got, err := readMedia(path, true)
	if err != nil || !strings.HasSuffix(got, "t.parquet#19@video/row20 ") {
		t.Fatalf("rows %s, %v", got, err)
	}
	for _, i := range []int{19, 1, 3, 7, 2, 13, 1, 19} {
		data, err := readCell(source.Member{File: path, Row: int64(i), Column: "video"})
		if err != nil || !bytes.Equal(data, rows[i].Video) || (data == nil) != (i == 3) {
			t.Errorf("row %d: %d bytes, %v", i, len(data), err)
		}
	}
	if len(groups.open) > maxGroups {
		t.Errorf("%d row groups are open", len(groups.open))
	}
	for problem, m := range map[string]source.Member{
		"has 20 rows, this is row 21": {File: path, Row: 20, Column: "video"},
		`has no column "x"`:           {File: path, Column: "x"},
		"no such file":                {File: path + "x", Column: "video"},
	} {
		if _, err := readCell(m); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v: %v, want %s", m, err, problem)
		}
	}
}
