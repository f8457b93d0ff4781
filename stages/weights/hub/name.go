package hub

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Repo is a model repository at a revision.
type Repo struct {
	Name     string // OWNER/NAME
	Revision string // a branch, a tag or a commit; "" is main
}

// mainRevision is the default revision.
const mainRevision = "main"

var (
	repoName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9][\w./-]*$`)
	commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// maxNameLen limits the length of names, which become names of directories.
const maxNameLen = 200

// ParseRepo reads "OWNER/NAME" or "OWNER/NAME@REVISION".
func ParseRepo(text string) (Repo, error) {
	name, rev, given := strings.Cut(text, "@")
	switch {
	case !repoName.MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "--") || len(name) > maxNameLen:
		return Repo{}, fmt.Errorf("%q is not the name of a repository: write OWNER/NAME, such as Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
			text)
	case !given:
		rev = ""
	case !revision.MatchString(rev) || strings.Contains(rev, "..") || len(rev) > maxNameLen:
		return Repo{}, fmt.Errorf("%q names no revision behind the @: write a branch, a tag or a commit", text)
	}
	return Repo{Name: name, Revision: rev}, nil
}

// String returns the form that ParseRepo parses.
func (r Repo) String() string {
	if r.Revision == "" {
		return r.Name
	}
	return r.Name + "@" + r.Revision
}

// wanted returns the revision, or main if there is none.
func (r Repo) wanted() string {
	return cmp.Or(r.Revision, mainRevision)
}
