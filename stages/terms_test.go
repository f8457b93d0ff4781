package stages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lay writes files below a directory.
func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const apache = "\n                                 Apache License\n                           Version 2.0, January 2004\n"

// hunyuan has the words of a licence with a territory.
const hunyuan = `TENCENT HUNYUAN COMMUNITY LICENSE AGREEMENT
“Territory” shall mean the worldwide territory, excluding the territory of the European Union, United Kingdom and South Korea.
b. You must not use the Tencent Hunyuan Works or any Output or results of the Tencent Hunyuan Works to improve any other AI model.
`

func TestTerms(t *testing.T) {
	commit := strings.Repeat("ab", 20)
	for name, c := range map[string]struct {
		files    map[string]string
		dir      string // of the model, below the files
		licence  string
		revision string
		has      []string
	}{
		"nothing":  {map[string]string{"m/model_index.json": "{}", "m/vae/config.json": "{}"}, "m", UnknownLicence, "", nil},
		"a card":   {map[string]string{"m/README.md": "---\nlicense: apache-2.0\ntags:\n- video\n---\n# X\n", "m/vae/config.json": "{}"}, "m", "apache-2.0", "", nil},
		"quotes":   {map[string]string{"m/README.md": "---\nlicense: \"MIT\"\n---\n", "m/vae/config.json": "{}"}, "m", "mit", "", nil},
		"a list":   {map[string]string{"m/README.md": "---\nlicense:\n  - mit\n  - apache-2.0\n---\n", "m/vae/config.json": "{}"}, "m", "mit, apache-2.0", "", nil},
		"its name": {map[string]string{"m/README.md": "---\nlicense: other\nlicense_name: cogvideox-license\nlicense_link: https://x\n---\n", "m/vae/config.json": "{}"}, "m", "cogvideox-license", "", []string{"https://x"}},
		"a text":   {map[string]string{"m/LICENSE.txt": apache, "m/vae/config.json": "{}"}, "m", "apache-2.0", "", nil},
		"a text of its own": {map[string]string{"m/LICENSE": hunyuan, "m/vae/config.json": "{}"}, "m", "TENCENT HUNYUAN COMMUNITY LICENSE AGREEMENT", "",
			[]string{"excluding the territory of the European Union", "to improve any other AI model"}},
		"no front matter": {map[string]string{"m/README.md": "# license: mit\n", "m/vae/config.json": "{}"}, "m", UnknownLicence, "", nil},
		"a cache": {map[string]string{"models--own--er-x/snapshots/" + commit + "/README.md": "---\nlicense: mit\n---\n",
			"models--own--er-x/snapshots/" + commit + "/vae/config.json": "{}"}, "models--own--er-x/snapshots/" + commit, "mit", "own/er-x@" + commit, nil},
		"a folder of a hub": {map[string]string{"m/README.md": "---\nlicense: mit\n---\n", "m/vae/config.json": "{}",
			"m/.cache/huggingface/download/README.md.metadata": commit + "\nxyz\n1.0\n"}, "m", "mit", commit, nil},
		"two parts": {map[string]string{"m/vae/config.json": "{}", "m/vae/README.md": "---\nlicense: mit\n---\n",
			"m/transformer/config.json": "{}", "m/transformer/LICENSE": apache}, "m", "transformer: apache-2.0; vae: mit", "", nil},
	} {
		root := t.TempDir()
		lay(t, root, c.files)
		m, err := OpenModel(filepath.Join(root, c.dir))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := m.Terms()
		if licence, revision := LicenceOf(all), RevisionOf(all); licence != c.licence || revision != c.revision {
			t.Errorf("%s: %q of %q, want %q of %q", name, licence, revision, c.licence, c.revision)
		}
		for _, want := range c.has {
			if text := all[0].Link + all[0].Territory + all[0].Outputs; !strings.Contains(text, want) {
				t.Errorf("%s: %+v does not say %q", name, all[0], want)
			}
		}
	}
}
