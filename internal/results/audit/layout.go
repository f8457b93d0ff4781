// Package audit checks existing outputs: Verify finds damage, Clean removes files that no table names, Retire removes whole outputs,
// and Compare finds the differences between two outputs. It computes no results and needs no model.
package audit

import (
	"regexp"
	"strings"

	"latentbeam/internal/results/marking"
	"latentbeam/schemas"
)

// objectClass is the kind of an object of an output, derived from its name.
type objectClass int

const (
	foreign objectClass = iota // not written by latentbeam
	video
	poster
	tableFile
	page
	facts // summary.json, job.json, croissant.json
	markRecord
	ledgerFile
	other // locks, runs/, names/ and similar, which Verify does not check by themselves
)

var (
	byKey    = regexp.MustCompile(`^(videos|posters)/([0-9a-f]{2})/([0-9a-f]{64})\.[a-z0-9]+$`)
	tabular  = regexp.MustCompile(`^(tables/[a-z]+[-/][-0-9a-z]*[0-9]{5}|metadata)\.parquet$`)
	pages    = regexp.MustCompile(`^(([0-9]{5}-of-[0-9]{5}-)?(index(-[0-9]+)?|report)\.html|README\.md)$`)
	factual  = regexp.MustCompile(`^(([0-9]{5}-of-[0-9]{5}-)?summary\.json|(job|scores|croissant)\.json)$`)
	segments = regexp.MustCompile(`^(ledger|readings)/[0-9a-f]{8}-[0-9a-f]{16}-[0-9a-f]{8}\.seg$`)
	others   = regexp.MustCompile(`^(runs/.*|names/.*|ledger/steps/.*|\.[-0-9a-z]*lock|assets/.*)$`)
)

// classOf returns the class of an object, and the key if its name contains one.
func classOf(name string) (objectClass, schemas.Key) {
	if m := byKey.FindStringSubmatch(name); m != nil && strings.HasPrefix(m[3], m[2]) {
		key, err := schemas.ParseKey(m[3])
		if err == nil && m[1] == "videos" {
			return video, key
		}
		if err == nil {
			return poster, key
		}
	}
	if name == marking.Name {
		return markRecord, schemas.Key{}
	}
	for _, c := range []struct {
		name  *regexp.Regexp
		class objectClass
	}{{tabular, tableFile}, {pages, page}, {factual, facts}, {segments, ledgerFile}, {others, other}} {
		if c.name.MatchString(name) {
			return c.class, schemas.Key{}
		}
	}
	return foreign, schemas.Key{}
}
