// Command release lists the modules of a built program and their licences, and builds wheels.
//
//	go run ./internal/dev/release licences build/latentbeam   # exit 1 where one is not known
//	go run ./internal/dev/release notices build/latentbeam    # the texts of the licences
//	go run ./internal/dev/release sbom build/latentbeam       # CycloneDX 1.6, JSON
//	go run ./internal/dev/release wheel build/wheels [linux/amd64 ...]   # a Python wheel for each platform, with the program inside
//
// The modules are read from the binary. A licence that is not recognised must be read by a person and added to texts.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) >= 3 && os.Args[1] == "wheel" {
		if err := wheels(os.Stdout, os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: release licences|notices|sbom BINARY, or release wheel DIR [GOOS/GOARCH ...]")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs a subcommand.
func run(w io.Writer, what, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	modules, err := modulesOf(info)
	if err != nil {
		return err
	}
	if what == "sbom" {
		return sbom(w, info, modules)
	}
	if what == "notices" {
		return notices(w, modules)
	}
	var unknown []string
	for _, m := range modules {
		fmt.Fprintf(w, "%-60s %-40s %s\n", m.Path, m.Version, m.licence)
		if m.licence == "" {
			unknown = append(unknown, m.Path)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the licence is not recognised of %s: read it, and add a row to texts", strings.Join(unknown, ", "))
	}
	return nil
}

// module is a module of the program with the SPDX names of its licences, joined by AND; "": no licence was recognised.
type module struct {
	debug.Module
	licence string
	files   []string // files with its licences and notices
}

// notices writes the texts of the licences and notices of all modules, which every copy of the program must include. A text that
// several modules share is written once.
func notices(w io.Writer, modules []module) error {
	first := map[string]string{}
	for _, m := range modules {
		for _, file := range m.files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			body := strings.TrimSpace(string(text))
			if other, there := first[body]; there {
				body = "The same text as of " + other + "."
			} else {
				first[body] = m.Path
			}
			fmt.Fprintf(w, "==== %s %s (%s), %s ====\n\n%s\n\n", m.Path, m.Version, m.licence, filepath.Base(file), body)
		}
	}
	return nil
}

// modulesOf finds the modules of a binary in the module cache. A module has the licences of its root folder and of the folders with
// packages that are linked.
func modulesOf(info *buildinfo.BuildInfo) (modules []module, err error) {
	packages := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}\t{{.Dir}}", info.Path)
	packages.Env = os.Environ()
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" { // the packages depend on the system
			packages.Env = append(packages.Env, s.Key+"="+s.Value)
		}
	}
	list, err := packages.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", info.Path, err)
	}
	licences, files := map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(string(list)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) != 3 { // a package of the standard library
			continue
		}
		path, root, dir := parts[0], parts[1], parts[2]
		for ; len(dir) >= len(root); dir = filepath.Dir(dir) {
			names, found := licencesIn(dir)
			licences[path] = append(licences[path], names...)
			notices, _ := filepath.Glob(filepath.Join(dir, "NOTICE*"))
			files[path] = append(append(files[path], found...), notices...)
		}
	}
	for _, d := range info.Deps {
		slices.Sort(files[d.Path])
		modules = append(modules, module{Module: *d, licence: joined(licences[d.Path]), files: slices.Compact(files[d.Path])})
	}
	names, found := licencesIn(goroot())
	std := module{Module: debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}, licence: joined(names), files: found}
	return append(modules, std), nil
}

// joined returns an SPDX expression that names each licence once.
func joined(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " AND ")
}

func goroot() string {
	out, _ := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out))
}

// texts are sentences by which licences are recognised. Each occurs in one licence only, except that BSD-3-Clause contains the
// sentences of BSD-2-Clause.
var texts = []struct {
	name  string
	words *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`Apache License,? Version 2\.0|www\.apache\.org/licenses/LICENSE-2\.0`)},
	{"MPL-2.0", regexp.MustCompile(`Mozilla Public License,? [vV]ersion 2\.0`)},
	{"Unlicense", regexp.MustCompile(`This is free and unencumbered software released into the public domain`)},
	{"BSD-3-Clause", regexp.MustCompile(`(?s)Redistribution and use in source and binary forms.*(Neither the names?|The names?) of`)},
	{"BSD-2-Clause", regexp.MustCompile(`Redistribution and use in source and binary forms`)},
	{"MIT", regexp.MustCompile(`Permission is hereby granted, free of charge, to any person obtaining a copy`)},
	{"ISC", regexp.MustCompile(`Permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee`)},
}

// licencesIn recognises the licences in a directory and returns the files with their texts. A file can contain several licences.
func licencesIn(dir string) (names, with []string) {
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "License*", "COPYING*", "UNLICENSE*", "license*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			words, before := strings.Join(strings.Fields(string(text)), " "), len(names)
			for _, t := range texts {
				if t.words.MatchString(words) && !(t.name == "BSD-2-Clause" && slices.Contains(names, "BSD-3-Clause")) {
					names = append(names, t.name)
				}
			}
			if len(names) > before && !slices.Contains(with, file) {
				with = append(with, file)
			}
		}
	}
	return names, with
}

// component is a component in the format of CycloneDX.
type component struct {
	Type     string              `json:"type"`
	Name     string              `json:"name"`
	Version  string              `json:"version,omitempty"`
	PURL     string              `json:"purl,omitempty"`
	Hashes   []map[string]string `json:"hashes,omitempty"`
	Licences []any               `json:"licenses,omitempty"`
}

// sbom writes the bill of materials. The bill has neither a time nor a serial number, so that equal programs have equal bills.
func sbom(w io.Writer, info *buildinfo.BuildInfo, modules []module) error {
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	components := make([]component, len(modules))
	for i, m := range modules {
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		if sum, found := strings.CutPrefix(m.Sum, "h1:"); found {
			digest, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return errors.Join(fmt.Errorf("the sum of %s", m.Path), err)
			}
			c.Hashes = []map[string]string{{"alg": "SHA-256", "content": hex.EncodeToString(digest)}}
		}
		switch {
		case strings.Contains(m.licence, " "):
			c.Licences = []any{map[string]string{"expression": m.licence}}
		case m.licence != "":
			c.Licences = []any{map[string]any{"license": map[string]string{"id": m.licence}}}
		}
		components[i] = c
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components,
		"metadata": map[string]any{"component": component{Type: "application", Name: info.Main.Path, Version: revision}}})
}
