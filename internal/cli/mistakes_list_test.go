//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ran is a shell in which the job has run.
func ran(s shell) { s.run(0, "run", "job.yaml") }

// program replaces the stages of the small job by a program that never starts.
var program = [2]string{"stages: [encode_text, denoise, decode_vae, guard, encode_video]",
	"stages: [{exec: {command: [sh, -c, exit 1], takes: prompt, gives: video, params: [prompt, speed]}}]"}

// mistakes are what newcomers did wrong, by reports and by trying.
var mistakes = []mistake{
	{name: "no such verb", args: []string{"rnu"}, exit: 2, what: "unknown command", where: "rnu", fix: "latentbeam --help"},
	{name: "no such flag", args: []string{"run", "job.yaml", "--dryrun"}, exit: 2, what: "unknown flag", where: "--dryrun", fix: "--help"},
	{name: "no job named", args: []string{"run"}, exit: 2, what: "arg", where: "run", fix: "FILE.yaml"},
	{name: "no such job", args: []string{"run", "jb.yaml"}, exit: 2, what: "no such file", where: "jb.yaml", fix: "init"},
	{name: "a directory as job", args: []string{"run", "."}, exit: 2, what: "is a directory", where: ".", fix: "init"},
	{name: "a pipe as job", args: []string{"run", "pipe.yaml"}, exit: 2, what: "no regular file", where: "pipe.yaml", fix: "write the job to a file",
		prepare: func(s shell) { _ = syscall.Mkfifo(filepath.Join(s.dir, "pipe.yaml"), 0o600) }},
	{name: "/dev/zero as job", args: []string{"run", "/dev/zero"}, exit: 2, what: "no regular file", where: "/dev/zero", fix: "write the job to a file"},
	{name: "the table as job, 2 MB", args: []string{"run", "prompts.csv"}, rows: "prompt\n" + strings.Repeat("a red circle\n", 160_000), exit: 2,
		what: "more than 1048576", where: "prompts.csv", fix: "is this the job's YAML"},
	{name: "an empty job", args: []string{"run", "empty.yaml"}, exit: 2, what: "empty", where: "empty.yaml", fix: "init", prepare: func(s shell) { s.write("empty.yaml", "") }},
	{name: "a tab in the YAML", job: [2]string{"  width: 16", "\twidth: 16"}, exit: 2, what: "not valid YAML", where: "job.yaml:6", fix: "spaces"},
	{name: "a colon is missing", job: [2]string{"model: tiny", "model tiny"}, exit: 2, what: "not valid YAML", where: "job.yaml", fix: "colons"},
	{name: "an unknown key", job: [2]string{"width: 16", "widht: 16"}, exit: 2, what: `unknown key "widht"`, where: "job.yaml:6", fix: "width"},
	{name: "a key twice", job: [2]string{"  width: 16", "  width: 16\n  width: 32"}, exit: 2, what: "a second time", where: "job.yaml:7", fix: "remove one"},
	{name: "a text for a number", job: [2]string{"width: 16", "width: wide"}, exit: 2, what: "must be a whole number", where: "job.yaml:6"},
	{name: "a number in quotes", job: [2]string{"width: 16", `width: "16"`}, exit: 2, what: "must be a whole number", where: "job.yaml:6", fix: "without quotes"},
	{name: "a fraction for a whole number", job: [2]string{"width: 16", "width: 16.5"}, exit: 2, what: "must be a whole number", where: "job.yaml:6", fix: "without a fraction"},
	{name: "a negative side", job: [2]string{"width: 16", "width: -16"}, exit: 2, what: "width", where: "job.yaml:6", fix: "16384"},
	{name: "a side the model cannot do", job: [2]string{"width: 16", "width: 5000"}, exit: 2, what: "width", where: "job.yaml:6"},
	{name: "the version is missing", job: [2]string{"version: 1\n", ""}, exit: 2, what: "version", where: "job.yaml", fix: "version: 1"},
	{name: "another version", job: [2]string{"version: 1", "version: 9"}, exit: 2, what: "version", where: "job.yaml:1", fix: "1"},
	{name: "no such model", job: [2]string{"model: tiny", "model: tinny"}, exit: 2, what: "tinny", where: "job.yaml:2", fix: "tiny"},
	{name: "the model is missing", job: [2]string{"model: tiny\n", ""}, exit: 2, what: "model", where: "job.yaml", fix: "tiny"},
	{name: "no such table", job: [2]string{"prompts.csv", "prompt.csv"}, exit: 2, what: "no such file", where: "prompt.csv", fix: "relative to the current directory"},
	{name: "a pattern without files", job: [2]string{"prompts.csv", `"*.jsonl"`}, exit: 2, what: "no file matches", where: "*.jsonl", fix: "relative to the current directory"},
	{name: "a directory as table", job: [2]string{"prompts.csv", "."}, exit: 2, what: "directory", where: "job.yaml:3", fix: "name the files in it"},
	{name: "a pipe as table", job: [2]string{"{prompts: prompts.csv}", "{prompts: pipe, format: csv}"}, exit: 2, what: "no regular file", where: "job.yaml:3", fix: "write the rows to a file",
		prepare: func(s shell) { _ = syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o600) }},
	{name: "/dev/zero as table", job: [2]string{"{prompts: prompts.csv}", "{prompts: /dev/zero, format: csv}"}, exit: 2, what: "no regular file", where: "job.yaml:3", fix: "write the rows to a file"},
	{name: "a table of unknown format", job: [2]string{"prompts.csv", "table.xlsx"}, exit: 2, what: "format", where: "job.yaml:3", fix: "input.format",
		prepare: func(s shell) { s.write("table.xlsx", "PK") }},
	{name: "a table without a prompt column", rows: "id,words\na,x\n", exit: 2, what: "column", where: "prompts.csv", fix: "columns"},
	{name: "a table without rows", rows: "id,prompt\n", exit: 2, what: "no rows", where: "job.yaml:3", fix: "--allow-empty"},
	{name: "an empty table", rows: " ", exit: 2, what: "no column holds the prompts", where: "prompts.csv:1", fix: "name the column"},
	{name: "every row is unusable", rows: "id,prompt,seed\na,x,foo\nb,y,bar\n", exit: 2, what: "none of the 2 rows can be used", where: "prompts.csv:2", fix: "mend prompts.csv:2"},
	{name: "one row is unusable", rows: "id,prompt,seed\na,x,foo\nb,y,3\n", exit: 1, what: "1 of 2 rows failed", where: "prompts.csv:2", fix: "mend prompts.csv:2"},
	{name: "a row with two errors", rows: "id,prompt,seed,height\na,x,foo,high\nb,y,3,16\n", exit: 1, what: `also height: "high"`, where: "prompts.csv:2", fix: "mend"},
	{name: "a row with too many steps", rows: "id,prompt,steps\na,x,9000\nb,y,2\n", exit: 1, what: "num_inference_steps", where: "prompts.csv:2", fix: "mend"},
	{name: "a row of a size that the model cannot do", rows: "id,prompt,height\na,x,20000\nb,y,16\n", exit: 1, what: "height", where: "prompts.csv:2"},
	{name: "a line with too many cells", rows: "id,prompt\na,x,y,z\nb,y\n", exit: 1, what: "1 of 2 rows failed", where: "prompts.csv:2", fix: "mend"},
	{name: "no such stage", job: [2]string{"guard", "gaurd"}, exit: 2, what: "gaurd", where: "job.yaml:9", fix: "guard"},
	{name: "stages in the wrong order", job: [2]string{"encode_text, denoise", "denoise, encode_text"}, exit: 2, what: "takes text", where: "job.yaml:9", fix: "put \"encode_text\" between them"},
	{name: "a stage is missing", job: [2]string{"denoise, ", ""}, exit: 2, what: "decode_vae", where: "job.yaml:9", fix: "put \"denoise\" between them"},
	{name: "no stages", job: [2]string{"[encode_text, denoise, decode_vae, guard, encode_video]", "[]"}, exit: 2, what: "stages", where: "job.yaml"},
	{name: "an unknown option of a stage", job: [2]string{"denoise,", "denoise: {stepss: 3},"}, exit: 2, what: `"stepss"`, where: "job.yaml:9", fix: "known here"},
	{name: "an unknown codec", job: [2]string{"encode_video]", "encode_video: {codec: h266}]"}, exit: 2, what: "h266", where: "job.yaml:9", fix: "h264"},
	{name: "the output is a file", job: [2]string{"path: out", "path: prompts.csv"}, exit: 3, what: "it is a file", where: "prompts.csv", fix: "name a directory"},
	{name: "the output lies below a file", job: [2]string{"path: out", "path: prompts.csv/out"}, exit: 3, what: "part of the path is a file", where: "prompts.csv/out", fix: "name a directory"},
	{name: "the output cannot be made", job: [2]string{"path: out", "path: /proc/out"}, exit: 3, what: "open output", where: "/proc/out"},
	{name: "a bucket of an unknown kind", job: [2]string{"path: out", `path: "abc://bucket/x"`}, exit: 2, what: "an address of another kind", where: "job.yaml:11", fix: "gs://"},
	{name: "an unknown part to write", job: [2]string{"path: out", "path: out\n  write: [vidoe]"}, exit: 2, what: "vidoe", where: "job.yaml:12", fix: "video"},
	{name: "an unknown way to verify", job: [2]string{"path: out", "path: out\n  verify: often"}, exit: 2, what: "often", where: "job.yaml:12", fix: "digest"},
	{name: "no such runner", args: []string{"run", "job.yaml", "--set", "runner=spork"}, exit: 2, what: "spork", where: "--set", fix: "local"},
	{name: "hosts without a token", job: [2]string{"output:\n", "resources: {workers: 1, hosts: [a:1, b:2]}\noutput:\n"}, exit: 2, what: "token_file", where: "job.yaml:10", fix: "add token_file"},
	{name: "no such token file", job: [2]string{"output:\n", "resources: {workers: 1, hosts: [a:1, b:2], token_file: no}\noutput:\n"}, exit: 2, what: "no such file", where: "job.yaml:10", fix: "make one with"},
	{name: "memory without a unit", job: [2]string{"output:\n", "resources: {memory: lots}\noutput:\n"}, exit: 2, what: "memory", where: "job.yaml:10", fix: "2GiB"},
	{name: "no workers", job: [2]string{"output:\n", "resources: {workers: 0}\noutput:\n"}, exit: 2, what: "workers", where: "job.yaml:10", fix: "1 or more"},
	{name: "a bad --set", args: []string{"run", "job.yaml", "--set", "defaults.width"}, exit: 2, what: "not of the form key=value", where: "--set defaults.width", fix: "--set defaults.height=128"},
	{name: "a --set of a wrong value", args: []string{"run", "job.yaml", "--set", "defaults.width=wide"}, exit: 2, what: "must be a whole number", where: "job.yaml:6"},
	{name: "a --set for a stage that is not there", args: []string{"run", "job.yaml", "--set", "stages.dnoise.x=1"}, exit: 2, what: `no stage "dnoise"`, where: "--set", fix: "denoise"},
	{name: "a bad shard", args: []string{"run", "job.yaml", "--shard", "4/4"}, exit: 2, what: `shard "4/4"`, where: "4/4", fix: "from 0 to n-1"},
	{name: "a negative limit", args: []string{"run", "job.yaml", "--limit", "-3"}, exit: 2, what: "--limit is -3", where: "--limit", fix: "1 or more"},
	{name: "retry of what is no output", args: []string{"retry", "nowhere"}, exit: 2, what: "no such file", where: "nowhere"},
	{name: "verify of what is no output", args: []string{"verify", "nowhere"}, exit: 2, what: "no such file", where: "nowhere"},
	{name: "clean of an output that is not finished", args: []string{"clean", "out"}, exit: 2, what: "not finished", where: "out", fix: "run its job to the end",
		prepare: func(s shell) { ran(s); _ = os.Remove(filepath.Join(s.dir, "out", "summary.json")) }},
	{name: "clean by a bad age", args: []string{"clean", "out", "--older-than", "week"}, exit: 2, what: "--older-than week", where: "--older-than", fix: "30d"},
	{name: "explain of a row that is not there", args: []string{"explain", "out", "zz"}, exit: 2, what: "no row of the input", where: "zz", fix: "by id", prepare: ran},
	{name: "diff with what is no output", args: []string{"diff", "out", "nowhere"}, exit: 2, what: "no such file", where: "nowhere", prepare: ran},
	{name: "a damaged job.json", args: []string{"retry", "out"}, exit: 2, what: "job.json", where: "out", fix: "run the job by its YAML",
		prepare: func(s shell) { ran(s); s.write("out/job.json", "{") }},
	{name: "a column of params is not in the table", job: program, rows: "id,prompt,sped\na,a circle,1\n", exit: 2, what: `no column "speed"`,
		where: "prompts.csv:1", fix: "did you mean sped"},
	{name: "retry of a job with a program", job: program, rows: "id,prompt,speed\na,a circle,1\n", args: []string{"retry", "out"}, exit: 2,
		what: "retry was not allowed to", where: "job.yaml:9", fix: "latentbeam retry out --allow-exec",
		prepare: func(s shell) { s.run(3, "run", "job.yaml") }},
	{name: "inspect of nothing", args: []string{"inspect", "nothing"}, exit: 2, what: "no such file", where: "nothing"},
	{name: "init over a file", args: []string{"init"}, exit: 2, what: "job.yaml", where: "job.yaml"},
}
