package layout

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table into the documentation")

// compareDocumented compares a table with the text of README.md between the comments <!-- MARK --> and <!-- /MARK -->. With
// -update it writes the table there.
func compareDocumented(t *testing.T, mark, table string) {
	t.Helper()
	const name = "README.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), "<!-- "+mark+" -->\n")
	text, after, closed := strings.Cut(rest, "<!-- /"+mark+" -->")
	if !found || !closed {
		t.Fatalf("%s has no place for the %s", name, mark)
	}
	t.Logf("\n%s", table)
	if *update {
		text := before + "<!-- " + mark + " -->\n" + table + "<!-- /" + mark + " -->" + after
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != table {
		t.Errorf("%s has another table; go test -update writes this one", name)
	}
}
