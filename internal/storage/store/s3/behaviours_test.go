package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/schemas/fault"
)

// matrixFile has the table of behaviours, between two marks.
const (
	matrixFile  = "../../../../docs/reliability.md"
	matrixOpens = "<!-- behaviours of buckets, written by TestBehaviours -->\n"
	matrixEnds  = "<!-- end of the behaviours -->"
	// writeVariable makes the test write the table.
	writeVariable = "REFERENCE"
)

// TestBehaviours tries every operation on a service of every behaviour: the check before a job, a job that meets the behaviour
// at once, and one that meets it in its middle. The table in docs/reliability.md says what comes of it.
func TestBehaviours(t *testing.T) {
	server := buckettest.S3(t)
	server.Use(t)
	other := server.Elsewhere(t)
	var table bytes.Buffer
	fmt.Fprintf(&table, "| the service | check | first contact | publish | read | list |\n|---|---|---|---|---|---|\n")
	noticed := 0
	behaviours := buckettest.Behaviours(other)
	if len(behaviours) < 16 {
		t.Fatalf("%d behaviours", len(behaviours))
	}
	for i, b := range behaviours {
		opened := func(prefix string) *bucket.Bucket {
			s, err := open(t.Context(), fmt.Sprint(prefix, i), bucket.Options{Clock: buckettest.NewClock()})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		began := opened("began") // a job that is at work
		release, err := began.Lock(t.Context(), ".lock", "a test")
		err = errors.Join(err, began.Put(t.Context(), store.Object{Name: "old", Data: []byte("old content")}))
		err = errors.Join(err, began.Remove(t.Context(), "old"), began.Put(t.Context(), store.Object{Name: "old", Data: []byte("old content")}))
		if _, listErr := store.Names(t.Context(), began, "", store.Deep); err != nil || listErr != nil {
			t.Fatal(err, listErr)
		}
		restore := server.Behave(b)
		promises, err := opened("check").Prove(t.Context(), false)
		checked := outcome(cmp.Or(err, store.Refuse("s3://bucket/check", promises)))
		if broken := store.BrokenPromises(promises); err == nil && len(broken) > 0 {
			checked = "2: " + broken[0].Name
		}
		fresh := opened("fresh")
		_, err = fresh.Lock(t.Context(), ".lock", "a test")
		cells := []string{b.Name, checked, outcome(err), outcome(publish(t.Context(), began)), outcome(readOld(t.Context(), began)),
			outcome(list(t.Context(), began))}
		restore()
		release()
		fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | "))
		if checked != "ok" {
			noticed++
		}
	}
	t.Logf("P17: %d behaviours of services by 5 operations; a check before the first row names %d of them, the others harm nothing",
		len(behaviours)-1, noticed)
	compare(t, table.String())
}

// publish puts a new object and one that is there, and replaces it.
func publish(ctx context.Context, s store.Store) error {
	err := s.Put(ctx, store.Object{Name: "new", Data: []byte("new content")})
	if err == nil {
		err = s.Put(ctx, store.Object{Name: "new", Data: []byte("new content")})
	}
	return err
}

func readOld(ctx context.Context, s store.Store) error {
	got, err := store.ReadFile(ctx, s, "old")
	if err == nil && string(got) != "old content" {
		return errWrong
	}
	return err
}

func list(ctx context.Context, s store.Store) error {
	names, err := store.Names(ctx, s, "", store.Deep)
	if err == nil && len(names) < 2 {
		return errWrong
	}
	return err
}

// errWrong says that a call succeeded with a wrong result.
var errWrong = errors.New("wrong")

var codes = regexp.MustCompile(`HTTP status \d+, (\w+)`)

// outcome is a cell of the table.
func outcome(err error) string {
	text := ""
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errWrong):
		return "**not noticed here**"
	case errors.Is(err, store.ErrConflict):
		return "3: other bytes are there"
	case errors.Is(err, store.ErrChanged):
		text = "changed meanwhile"
	case strings.Contains(err.Error(), "ignores If-None-Match"):
		text = "If-None-Match is ignored"
	case strings.Contains(err.Error(), "contradicts itself"):
		text = "the service contradicts itself"
	case codes.MatchString(err.Error()):
		text = codes.FindStringSubmatch(err.Error())[1]
	default:
		text = err.Error()
	}
	return fmt.Sprintf("%d: %s", fault.ExitCode(err), text)
}

// compare compares the table with the one of the document, or writes it there.
func compare(t *testing.T, table string) {
	t.Helper()
	page, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opens := strings.Cut(string(page), matrixOpens)
	have, after, ends := strings.Cut(rest, matrixEnds)
	if !opens || !ends {
		t.Fatalf("%s has no place for the table", matrixFile)
	}
	if have == table {
		return
	}
	if os.Getenv(writeVariable) == "write" {
		if err := os.WriteFile(matrixFile, []byte(before+matrixOpens+table+matrixEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table in %s is old; run this test with %s=write:\n%s", matrixFile, writeVariable, table)
}

// TestDeniedDelete: a job that has to remove something, and must not, cannot succeed later; one that could before may.
func TestDeniedDelete(t *testing.T) {
	server := buckettest.S3(t)
	server.Use(t)
	for i, b := range buckettest.Behaviours(server.Elsewhere(t)) {
		if b.Name != "no right to delete" && b.Name != "credentials have ended" && b.Name != "the clock is wrong" {
			continue
		}
		for _, could := range []bool{false, true} {
			s, err := open(t.Context(), fmt.Sprint("denied", i, could), bucket.Options{Clock: buckettest.NewClock()})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				err = errors.Join(err, s.Put(t.Context(), store.Object{Name: name, Data: []byte("content")}))
			}
			_, readErr := s.Stat(t.Context(), "b")
			err = errors.Join(err, readErr)
			if could {
				err = errors.Join(err, s.Remove(t.Context(), "a"))
			}
			if err != nil {
				t.Fatal(err)
			}
			restore := server.Behave(b)
			err = s.Remove(t.Context(), "b")
			restore()
			want := fault.ExitTryAgain
			if b.Name == "no right to delete" && !could {
				want = fault.ExitUsage
			}
			if got := fault.ExitCode(err); err == nil || got != want || want == fault.ExitUsage && !strings.Contains(err.Error(), "s3:DeleteObject") {
				t.Errorf("%s, it could before: %v: exit %d, want %d: %v", b.Name, could, got, want, err)
			}
		}
	}
}
