package stages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/system"
)

// UnknownLicence is the licence of weights whose files do not name one.
const UnknownLicence = "unknown"

// Terms say under which licence weights were published, as found in the files beside them: the front matter of the model card
// (README.md) and files named LICENSE. They repeat the files and are not legal advice.
type Terms struct {
	// Components are the model's components that come from this place, such as transformer.
	Components []string `json:"components"`
	// Repository is OWNER/NAME on a hub, and Revision the commit; "" if not known.
	Repository string `json:"repository,omitempty"`
	Revision   string `json:"revision,omitempty"`
	// Licence is an identifier such as apache-2.0, or the card's own name for it; UnknownLicence if nothing names it.
	Licence string `json:"licence"`
	Link    string `json:"link,omitempty"` // of the text of a licence of its own
	// Territory is where the licence applies, and Outputs its clause about training on results, both quoted; "" if not found.
	Territory string `json:"territory,omitempty"`
	Outputs   string `json:"outputs,omitempty"`
}

// Terms lists the origins of the model's weights, one entry for each place. The built-in model has none.
func (m *Model) Terms() (list []Terms) {
	var roots []string
	add := func(component, dir string) {
		root := termsRoot(dir)
		i := slices.Index(roots, root)
		if i < 0 {
			roots, list, i = append(roots, root), append(list, termsOf(root)), len(list)
		}
		list[i].Components = append(list[i].Components, component)
	}
	for _, c := range components {
		if dir := m.dirs[c]; dir != "" {
			if _, err := os.Stat(dir); err == nil {
				add(c, dir)
			}
		}
	}
	for _, l := range m.Loras {
		dir := l.Path
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		add("lora "+filepath.Base(l.Path), dir)
	}
	return list
}

// hasTerms reports whether a directory has a model card or a licence.
func hasTerms(dir string) bool {
	return len(licenceFiles(dir)) > 0 || isRegular(filepath.Join(dir, cardName))
}

// termsRoot returns the directory whose card and licence apply to a component: its own, or the whole model's.
func termsRoot(dir string) string {
	if parent := filepath.Dir(dir); !hasTerms(dir) && (hasTerms(parent) || isRegular(filepath.Join(parent, "model_index.json"))) {
		return parent
	}
	return dir
}

const (
	cardName   = "README.md"
	maxLicence = 1 << 20 // bytes of a card or a licence that are read
)

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// licenceFiles returns the paths of the licence files in a directory.
func licenceFiles(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // an unreadable directory has none
	for _, e := range entries {
		if upper := strings.ToUpper(e.Name()); strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// inCache matches the directory of a commit in a cache of huggingface_hub.
var inCache = regexp.MustCompile(`models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})/?$`)

// termsOf reads the terms of a directory.
func termsOf(dir string) (t Terms) {
	if whole, err := filepath.Abs(dir); err == nil {
		if found := inCache.FindStringSubmatch(filepath.ToSlash(whole)); found != nil {
			t.Repository, t.Revision = found[1]+"/"+found[2], found[3]
		}
	}
	if t.Revision == "" { // huggingface_hub downloaded into a plain folder
		for _, name := range []string{cardName, "model_index.json", "config.json"} {
			data, err := system.ReadRegular(filepath.Join(dir, ".cache", "huggingface", "download", name+".metadata"), maxLicence)
			if line, _, _ := strings.Cut(string(data), "\n"); err == nil && commit.MatchString(line) {
				t.Revision = line
				break
			}
		}
	}
	if card, err := system.ReadRegular(filepath.Join(dir, cardName), maxLicence); err == nil {
		front := frontMatter(string(card))
		t.Licence, t.Link = strings.ToLower(front["license"]), front["license_link"]
		if name := front["license_name"]; name != "" && (t.Licence == "" || t.Licence == "other") {
			t.Licence = name
		}
	}
	for _, path := range licenceFiles(dir) {
		text, err := system.ReadRegular(path, maxLicence)
		if err != nil {
			continue
		}
		if t.Licence == "" {
			t.Licence = licenceOf(string(text))
		}
		t.Territory = orText(t.Territory, sentence(territory(), string(text)))
		t.Outputs = orText(t.Outputs, sentence(aboutOutputs(), string(text)))
	}
	t.Licence = orText(t.Licence, UnknownLicence)
	return t
}

var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

func orText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// frontMatter reads the plain entries of the YAML at the top of a model card. The values of a list are joined with commas.
func frontMatter(card string) map[string]string {
	front := map[string]string{}
	rest, begins := strings.CutPrefix(strings.ReplaceAll(card, "\r\n", "\n"), "---\n")
	head, _, ends := strings.Cut(rest, "\n---")
	if !begins || !ends {
		return front
	}
	last := ""
	for line := range strings.Lines(head) {
		line = strings.TrimRight(line, " \n")
		if item, isItem := strings.CutPrefix(strings.TrimSpace(line), "- "); isItem && last != "" {
			front[last] = strings.TrimPrefix(front[last]+", "+plainText(item), ", ")
			continue
		}
		key, value, isEntry := strings.Cut(line, ":")
		if !isEntry || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "#") {
			last = ""
			continue
		}
		last = key
		if value = plainText(strings.Trim(strings.TrimSpace(value), "[]")); value != "" {
			front[key] = value
		}
	}
	return front
}

// plainText returns a YAML value without its quotes.
func plainText(text string) string { return strings.Trim(strings.TrimSpace(text), `"'`) }

// knownLicences maps words to licences. Each entry's words occur in no other text of the list.
var knownLicences = []struct {
	name  string
	words *regexp.Regexp
}{
	{"apache-2.0", regexp.MustCompile(`(?is)Apache License\s+Version 2\.0`)},
	{"mit", regexp.MustCompile(`(?is)Permission is hereby granted, free of charge, to any person obtaining a copy`)},
	{"bsd-3-clause", regexp.MustCompile(`(?is)Redistribution and use in source and binary forms.*Neither the name`)},
	{"bsd-2-clause", regexp.MustCompile(`(?is)Redistribution and use in source and binary forms`)},
	{"creativeml-openrail-m", regexp.MustCompile(`(?i)CreativeML Open RAIL-M`)},
	{"cc-by-nc-4.0", regexp.MustCompile(`(?i)Attribution-NonCommercial 4\.0`)},
	{"cc-by-4.0", regexp.MustCompile(`(?i)Attribution 4\.0 International`)},
}

// licenceOf identifies a licence from its text: a known identifier, or the first line.
func licenceOf(text string) string {
	for _, known := range knownLicences {
		if known.words.MatchString(text) {
			return known.name
		}
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return firstRunes(line, 100)
		}
	}
	return ""
}

// Patterns for clauses of custom licences. The words come from the licences of Tencent Hunyuan, Meta Llama and licences derived
// from them. They are compiled when they are first used, because that takes milliseconds.
var (
	territory = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?is)"?territory"?['”]?\s+(?:shall )?means?\s[^.]{3,400}\.`)
	})
	aboutOutputs = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?is)[^.]{0,200}\b(?:outputs?|results?)\b[^.]{0,200}\b(?:improve|train|distill?)\b[^.]{0,200}\.`)
	})
)

// sentence returns the first matching sentence of a text, on one line.
func sentence(of *regexp.Regexp, text string) string {
	return firstRunes(strings.Join(strings.Fields(of.FindString(text)), " "), 500)
}

func firstRunes(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// LicenceOf returns the text that rows show as the licence of a model: one name if all parts agree, else one for each part.
func LicenceOf(all []Terms) string {
	return ofParts(all, func(t Terms) string { return t.Licence })
}

// RevisionOf returns the text that rows show as the origin of a model: OWNER/NAME@COMMIT as far as known, or "".
func RevisionOf(all []Terms) string {
	return ofParts(all, func(t Terms) string { return strings.Trim(t.Repository+"@"+t.Revision, "@") })
}

func ofParts(all []Terms, what func(Terms) string) string {
	var values, parts []string
	for _, t := range all {
		values = append(values, what(t))
		parts = append(parts, strings.Join(t.Components, ", ")+": "+orText(what(t), UnknownLicence))
	}
	if slices.Sort(values); len(slices.Compact(slices.Clone(values))) == 1 {
		return values[0]
	}
	return strings.Join(parts, "; ")
}
