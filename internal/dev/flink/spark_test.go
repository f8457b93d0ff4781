package flink

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sparkVariable names the directory of Spark's jars, set by .ci/flink.
const sparkVariable = "LATENTBEAM_SPARK_DIR"

const sparkPort = 8098

// sparkOpens are the packages of Java that Spark accesses by reflection, in addition to opens.
var sparkOpens = []string{"java.lang.invoke", "java.lang.reflect", "java.io", "java.util.concurrent.atomic", "sun.nio.cs",
	"sun.security.action", "sun.util.calendar"}

// spark starts Beam's job server of Spark with two slots in its own process, and returns what runs jobs there.
func spark(t *testing.T) *flink {
	t.Helper()
	jars := os.Getenv(sparkVariable)
	if jars == "" {
		t.Skip("NOT TESTED: needs the jars of Spark: make flink")
	}
	f := &flink{dir: t.TempDir(), jars: filepath.Join(jars, "lib", "*"), program: filepath.Join(os.Getenv(dirVariable), "program"),
		parts: map[string]*exec.Cmd{}}
	more := []string{"--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "-Dspark.driver.bindAddress=127.0.0.1",
		"-Dspark.driver.host=127.0.0.1", "-Dspark.ui.enabled=false"}
	for _, p := range sparkOpens {
		more = append(more, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	line := f.java("1g", "org.apache.beam.runners.spark.SparkJobServerDriver", "--spark-master-url=local[2]", "--job-host=localhost",
		fmt.Sprintf("--job-port=%d", sparkPort), "--artifact-port=0", "--expansion-port=0",
		"--artifacts-dir="+filepath.Join(f.dir, "artifacts"))
	line = append(append([]string{line[0]}, more...), line[1:]...)
	if err := f.start("spark", line); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	for deadline := time.Now().Add(startTime); ; time.Sleep(200 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("localhost:%d", sparkPort))
		if err == nil {
			conn.Close()
			return f
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(filepath.Join(f.dir, "spark.log"))
			t.Fatalf("Spark's job server did not start: %s", last(string(text), 1000))
		}
	}
}

// onSpark returns a run of the job on Spark.
func onSpark(sets ...string) []string {
	return append([]string{fmt.Sprintf("runner={name: spark, endpoint: \"localhost:%d\", parallelism: 2, waves: 3}", sparkPort)}, sets...)
}

// TestSpark: videos of the built-in model, and 1,000 rows of which some fail, equal those of the local runner. A second run finds nothing
// to do, and the error of a failed job is reported.
func TestSpark(t *testing.T) {
	f := spark(t)
	videos := shapes(t, f)
	local := videos.start(t, "local")
	local.ends(0)
	spread := videos.start(t, "spark", onSpark()...)
	spread.ends(0)
	same(t, local.out, spread.out)

	rows := probing(t, f, 1000, "refuse", "a row", "refuse")
	rows.start(t, "local", "runner=local").ends(1)
	r := rows.start(t, "spark", onSpark(rows.logging(0)...)...)
	r.ends(1)
	same(t, filepath.Join(rows.dir, "local"), r.out)
	if n := len(processes(rows.notes(t))["spark"]); n == 0 {
		t.Error("no process of Spark has noted a row")
	}
	before := len(rows.notes(t))
	rows.start(t, "spark", onSpark(rows.logging(0)...)...).ends(1)
	if after := len(rows.notes(t)); after != before {
		t.Errorf("a second run computed %d batches", after-before)
	}

	bad := probing(t, f, 20, "fatal")
	text := bad.start(t, "spark", onSpark(bad.logging(0)...)...).ends(3)
	if !strings.Contains(text, "the row asks for the end") || !strings.Contains(text, "worker on host") {
		t.Errorf("the output does not have the reason:\n%s", text)
	}
}
