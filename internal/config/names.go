package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxBytes is the maximum length of a file name without its extension.
const MaxBytes = 200

// hashBytes is the length of the suffix of a shortened name: "-" and eight digits.
const hashBytes = 9

// NameTemplate is text with columns in braces, such as "{id}-{seed}".
type NameTemplate struct{ parts []namePart }

// namePart is a text, or a column if name is not "".
type namePart struct{ text, name string }

// ParseName parses a template. A template has no slash and at least one column, because names must differ.
func ParseName(text string) (*NameTemplate, error) {
	t := &NameTemplate{}
	rest := text
	for rest != "" {
		before, after, found := strings.Cut(rest, "{")
		if strings.ContainsAny(before, "}/") {
			return nil, fmt.Errorf("%q has a brace without its other half, or a slash; write it as in {id}-{seed}", text)
		}
		if before != "" {
			t.parts = append(t.parts, namePart{text: before})
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if name = strings.TrimSpace(name); !closed || name == "" || strings.Contains(name, "{") {
			return nil, fmt.Errorf("%q has a brace without its other half, or no column in it; write it as in {id}-{seed}", text)
		}
		t.parts = append(t.parts, namePart{name: name})
		rest = behind
	}
	if len(t.Columns()) == 0 {
		return nil, fmt.Errorf("%q names no column, so all files would have one name; write it as in {id}-{seed}", text)
	}
	return t, nil
}

// Columns returns the columns in the template, each once.
func (t *NameTemplate) Columns() []string {
	var names []string
	for _, p := range t.parts {
		if p.name != "" && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// Name returns the name for a row, see CleanName. value returns the text of a column.
func (t *NameTemplate) Name(value func(column string) string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(value(p.name))
		}
	}
	return CleanName(b.String())
}

// CleanName makes a name that is valid on every system. It replaces characters that some system does not allow, and an
// empty name, by "_". A name longer than MaxBytes is cut and gets a hash of the whole name.
func CleanName(s string) string {
	whole := norm.NFC.String(strings.ToValidUTF8(s, "_"))
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(`<>:"/\|?*`, r) {
			return '_'
		}
		return r
	}, whole)
	name = strings.TrimRight(strings.TrimSpace(name), ". ")
	if strings.HasPrefix(name, ".") || reserved(name) {
		name = "_" + name
	}
	if name == "" {
		return "_"
	}
	return ShortName(name, whole)
}

// ShortName returns a name of at most MaxBytes. It cuts a longer name and appends a digest of whole.
func ShortName(name, whole string) string {
	if len(name) <= MaxBytes {
		return name
	}
	cut := MaxBytes - hashBytes
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(whole))
	return strings.TrimRight(name[:cut], ". ") + "-" + hex.EncodeToString(sum[:])[:hashBytes-1]
}

// IDStem returns the name, without extension, of the files that exports write for an id. Different ids can have the same stem.
func IDStem(id string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '-'
		}
		return r
	}, id)
}

// FoldName normalizes a name and makes it lower case. Names that collide on a file system that ignores case have equal results.
func FoldName(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// reserved reports whether Windows reserves the name, with any extension, for a device.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	stem = strings.TrimSpace(stem)
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, stem) {
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'
}
