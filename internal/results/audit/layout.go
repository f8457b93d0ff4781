// Package audit looks at outputs that are there: whether every byte is what was written (Verify), what nobody needs any
// more (Stale, Clean), and how two of them differ (Diff). It computes nothing and needs no model.
package audit

import (
	"regexp"
	"strings"

	"latentbeam/internal/results/marking"
	"latentbeam/schemas"
)

// objectClass says what an object of an output is, by its name.
type objectClass int

const (
	foreign objectClass = iota // nothing that latentbeam writes
	video
	poster
	tableFile
	page
	facts // summary.json, job.json, croissant.json
	markRecord
	ledgerFile
	other // locks, runs/, names/: checked by nobody, or as a part of something else
)

var (
	byKey    = regexp.MustCompile(`^(videos|posters)/([0-9a-f]{2})/([0-9a-f]{64})\.[a-z0-9]+$`)
	tabular  = regexp.MustCompile(`^(tables/[a-z]+[-/][-0-9a-z]*[0-9]{5}|metadata)\.parquet$`)
	pages    = regexp.MustCompile(`^(([0-9]{5}-of-[0-9]{5}-)?(index(-[0-9]+)?|report)\.html|README\.md)$`)
	factual  = regexp.MustCompile(`^(([0-9]{5}-of-[0-9]{5}-)?summary\.json|(job|scores|croissant)\.json)$`)
	segments = regexp.MustCompile(`^(ledger|readings)/[0-9a-f]{8}-[0-9a-f]{16}-[0-9a-f]{8}\.seg$`)
	others   = regexp.MustCompile(`^(runs/.*|names/.*|ledger/steps/.*|\.[-0-9a-z]*lock|assets/.*)$`)
)

// classOf tells what an object is, and its key where its name holds one.
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
