package reference

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#{1,6} +(.+?) *$")
	block   = regexp.MustCompile("(?ms)^```.*?^```")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // characters of a heading that GitHub leaves out of its anchor
)

// TestLinks: every link in a Markdown file to a file of this module or to a heading is valid.
func TestLinks(t *testing.T) {
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "out" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the file of the link %s does not exist", path, m[1])
			} else if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s: the link %s names a heading that %s does not have", path, m[1], target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("only %d links were found", found)
	}
}

// anchors returns GitHub's anchors of the headings of a file.
func anchors(t *testing.T, path string) map[string]bool {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(block.ReplaceAllString(string(text), ""), -1) {
		name := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
