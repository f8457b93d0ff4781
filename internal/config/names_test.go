package config

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTemplates(t *testing.T) {
	columns := map[string]string{"id": "a/b", "seed": "42", "prompt": "a red: circle?"}
	for text, want := range map[string]string{
		"{id}-{seed}": "a_b-42", "x {prompt}": "x a red_ circle_", "{ id }": "a_b", "{missing}": "_",
	} {
		tm, err := ParseName(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := tm.Name(func(c string) string { return columns[c] }); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, bad := range []string{"", "plain", "{id", "id}", "{}", "{a{b}", "{id}/{seed}"} {
		if _, err := ParseName(bad); err == nil {
			t.Errorf("the invalid name %q is accepted", bad)
		}
	}
}

func TestCleanNames(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a<b>:\"|?*\\/": "a_b________", ".hidden": "_.hidden", "dots...": "dots", " x ": "x",
		"nul": "_nul", "COM7.txt": "_COM7.txt", "com": "com", "": "_", "...": "_", "a\x00\nb": "a__b",
		"e\u0301": "é", "a\xffb": "a_b", "日本": "日本", "x\u202ey": "x_y",
	} {
		if got := CleanName(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	long, other := CleanName(strings.Repeat("日", 100)), CleanName(strings.Repeat("日", 101))
	if len(long) > MaxBytes || !utf8.ValidString(long) || long == other || !strings.HasPrefix(long, "日日日") {
		t.Errorf("a long name became %q of %d bytes, another %q", long, len(long), other)
	}
}
