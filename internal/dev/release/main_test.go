package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLicencesOfAProgram: all modules of the program have known licences and are in the bill of materials.
func TestLicencesOfAProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", binary, "latentbeam/docs/pictures")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var list, bill bytes.Buffer
	if err := run(&list, "licences", binary); err != nil {
		t.Errorf("a licence is not known: %v\n%s", err, &list)
	}
	if err := run(&bill, "sbom", binary); err != nil {
		t.Fatal(err)
	}
	var b struct {
		Components []component `json:"components"`
	}
	if err := json.Unmarshal(bill.Bytes(), &b); err != nil || len(b.Components) != strings.Count(list.String(), "\n") {
		t.Errorf("the bill of materials has %d components (%v), want one for each line of\n%s", len(b.Components), err, &list)
	}
	var texts bytes.Buffer
	if err := run(&texts, "notices", binary); err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Components {
		if !strings.Contains(texts.String(), "==== "+c.Name+" ") {
			t.Errorf("the notices have no licence text of %s", c.Name)
		}
	}
}

// TestLicences: known licences are recognised, and an unknown one is not.
func TestLicences(t *testing.T) {
	for want, text := range map[string]string{
		"MIT":          "MIT License\n\nPermission is hereby granted, free of charge,\nto any person obtaining a copy",
		"BSD-2-Clause": "Redistribution and use in source\nand binary forms, with or without",
		"BSD-3-Clause": "Redistribution and use in source and binary forms ... Neither the name of X nor",
		"Apache-2.0":   "   Apache License\n   Version 2.0, January 2004\n   http://www.apache.org/licenses/LICENSE-2.0",
		"Unlicense":    "This is free and unencumbered software released into the public domain.",
		"":             "All rights reserved.",

		"Apache-2.0 AND BSD-3-Clause AND MIT": "Redistribution and use in source and binary forms ... Neither the name of X nor ... " +
			"Apache License Version 2.0 ... Permission is hereby granted, free of charge, to any person obtaining a copy",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names, files := licencesIn(dir)
		if got := joined(names); got != want {
			t.Errorf("the licence %q is classified as %q, want %q", text, got, want)
		}
		if len(files) != min(len(names), 1) {
			t.Errorf("the licence %q: got files %v, want LICENSE if it is known", text, files)
		}
	}
}
