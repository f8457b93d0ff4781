//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ran runs the job first, for mistakes that need an output.
func ran(s shell) { s.run(0, "run", "job.yaml") }

// program replaces the stages of the small job by a program that never starts.
var program = [2]string{"stages: [encode_text, denoise, decode_vae, guard, encode_video]",
	"stages: [{exec: {command: [sh, -c, exit 1], takes: prompt, gives: video, params: [prompt, speed]}}]"}

// wrongCommands are mistakes in a command line that the verb finds without opening a job.
var wrongCommands = []mistake{
	{name: "no such verb", args: []string{"rnu"}, exit: 2, what: "unknown command", where: "rnu", fix: "latentbeam --help"},
	{name: "no such flag", args: []string{"run", "job.yaml", "--dryrun"}, exit: 2, what: "unknown flag", where: "--dryrun", fix: "--help"},
	{name: "no job named", args: []string{"run"}, exit: 2, what: "arg", where: "run", fix: "FILE.yaml"},
	{name: "no such job", args: []string{"run", "jb.yaml"}, exit: 2, what: "no such file", where: "jb.yaml", fix: "init"},
	{name: "a directory as job", args: []string{"run", "."}, exit: 2, what: "is a directory", where: ".", fix: "init"},
	{name: "a pipe as job", args: []string{"run", "pipe.yaml"}, exit: 2, what: "no regular file", where: "pipe.yaml", fix: "write the job to a file",
		prepare: func(s shell) { _ = syscall.Mkfifo(filepath.Join(s.dir, "pipe.yaml"), 0o600) }},
	{name: "the table as job, 2 MB", args: []string{"run", "prompts.csv"}, rows: "prompt\n" + strings.Repeat("a red circle\n", 160_000), exit: 2,
		what: "more than 1048576", where: "prompts.csv", fix: "is this the job's YAML"},
	{name: "no such runner", args: []string{"run", "job.yaml", "--set", "runner=spork"}, exit: 2, what: "spork", where: "--set", fix: "local"},
	{name: "a bad shard", args: []string{"run", "job.yaml", "--shard", "4/4"}, exit: 2, what: `shard "4/4"`, where: "4/4", fix: "from 0 to n-1"},
	{name: "a negative limit", args: []string{"run", "job.yaml", "--limit", "-3"}, exit: 2, what: "--limit is -3", where: "--limit", fix: "1 or more"},
	{name: "retry of what is no output", args: []string{"retry", "nowhere"}, exit: 2, what: "no such file", where: "nowhere", fix: "output.path of a job"},
	{name: "verify of what is no output", args: []string{"verify", "nowhere"}, exit: 2, what: "no such file", where: "nowhere", fix: "output.path of a job"},
	{name: "clean by a bad age", args: []string{"clean", "out", "--older-than", "week"}, exit: 2, what: "--older-than week", where: "--older-than", fix: "30d"},
	{name: "inspect of nothing", args: []string{"inspect", "nothing"}, exit: 2, what: "no such file", where: "nothing", fix: "give a file of weights"},
	{name: "init over a file", args: []string{"init"}, exit: 2, what: "job.yaml", where: "job.yaml", fix: "give another name"},
	{name: "metrics into a file of another kind", args: []string{"run", "job.yaml", "--metrics-file", "m.txt"}, exit: 2, what: "node exporter", where: "--metrics-file m.txt",
		fix: "end with .prom"},
	{name: "metrics at no address", args: []string{"run", "job.yaml", "--metrics", "here:99999"}, exit: 2, what: "invalid port", where: "--metrics", fix: "127.0.0.1:9464"},
	{name: "a timeline into no directory", args: []string{"run", "job.yaml", "--trace", "no/t.json"}, exit: 2, what: "no directory", where: "--trace no/t.json", fix: "make it first"},
	{name: "a level of logs that is none", args: []string{"run", "job.yaml", "--log-level", "loud"}, exit: 2, what: `"loud"`, where: "--log-level", fix: "debug, info, warn or error"},
	{name: "clean keeps no output", args: []string{"clean", "out", "--keep-outputs", "0"}, exit: 2, what: "--keep-outputs is 0", where: "--keep-outputs", fix: "1 or more"},
	{name: "a plan for an unknown GPU", args: []string{"plan", "job.yaml", "--devices", "4xQ9000"}, exit: 2, what: `"Q9000"`, where: "--devices", fix: "H100"},
	{name: "pull of half a name", args: []string{"pull", "nobody"}, exit: 2, what: "not the name of a repository", where: "nobody", fix: "OWNER/NAME"},
	{name: "convert of a table", args: []string{"convert", "prompts.csv"}, exit: 2, what: "not a safetensors file", where: "prompts.csv", fix: "give"},
}

// wrongJobs are mistakes that are found only when the job or its output is opened.
var wrongJobs = []mistake{
	{name: "an unknown key", job: [2]string{"width: 16", "widht: 16"}, exit: 2, what: `unknown key "widht"`, where: "job.yaml:6", fix: "width"},
	{name: "no such model", job: [2]string{"model: tiny", "model: tinny"}, exit: 2, what: "tinny", where: "job.yaml:2", fix: "tiny"},
	{name: "no such table", job: [2]string{"prompts.csv", "prompt.csv"}, exit: 2, what: "no such file", where: "prompt.csv", fix: "relative to the current directory"},
	{name: "every row is unusable", rows: "id,prompt,seed\na,x,foo\nb,y,bar\n", exit: 2, what: "none of the 2 rows can be used", where: "prompts.csv:2", fix: "mend prompts.csv:2"},
	{name: "one row is unusable", rows: "id,prompt,seed\na,x,foo\nb,y,3\n", exit: 1, what: "1 of 2 rows failed", where: "prompts.csv:2", fix: "mend prompts.csv:2"},
	{name: "a row with two errors", rows: "id,prompt,seed,height\na,x,foo,high\nb,y,3,16\n", exit: 1, what: `also height: "high"`, where: "prompts.csv:2", fix: "mend"},
	{name: "the output is a file", job: [2]string{"path: out", "path: prompts.csv"}, exit: 2, what: "it is a file", where: "prompts.csv", fix: "name a directory"},
	{name: "the output lies below a file", job: [2]string{"path: out", "path: prompts.csv/out"}, exit: 2, what: "part of the path is a file", where: "prompts.csv/out", fix: "name a directory"},
	{name: "the output cannot be made", job: [2]string{"path: out", "path: /proc/out"}, exit: 3, what: "open output", where: "/proc/out"},
	{name: "no such token file", job: [2]string{"output:\n", "resources: {workers: 1, hosts: [a:1, b:2], token_file: no}\noutput:\n"}, exit: 2, what: "no such file", where: "job.yaml:10", fix: "make one with"},
	{name: "clean of an output that is not finished", args: []string{"clean", "out"}, exit: 2, what: "not finished", where: "out", fix: "run its job to the end",
		prepare: func(s shell) { ran(s); _ = os.Remove(filepath.Join(s.dir, "out", "summary.json")) }},
	{name: "explain of a row that is not there", args: []string{"explain", "out", "zz"}, exit: 2, what: "no row of the input", where: "zz", fix: "by id", prepare: ran},
	{name: "a damaged job.json", args: []string{"retry", "out"}, exit: 2, what: "job.json", where: "out", fix: "run the job by its YAML",
		prepare: func(s shell) { ran(s); s.write("out/job.json", "{") }},
	{name: "a column of params is not in the table", job: program, rows: "id,prompt,sped\na,a circle,1\n", exit: 2, what: `no column "speed"`,
		where: "prompts.csv:1", fix: "did you mean sped"},
	{name: "retry of a job with a program", job: program, rows: "id,prompt,speed\na,a circle,1\n", args: []string{"retry", "out"}, exit: 2,
		what: "retry was not allowed to", where: "job.yaml:9", fix: "latentbeam retry out --allow-exec",
		prepare: func(s shell) { s.run(3, "run", "job.yaml") }},
	{name: "an export of another kind", args: []string{"export", "out", "x", "--to", "lance"}, exit: 2, what: "lance", where: "--to lance", fix: "webdataset", prepare: ran},
	{name: "an export without latents", args: []string{"export", "out", "x", "--to", "fastvideo"}, exit: 2, what: "no table of latents", where: "out", fix: "write: [latents]",
		prepare: ran},
	{name: "a copy onto itself", args: []string{"copy", "out", "out"}, exit: 2, what: "the same output", where: "out", fix: "another", prepare: ran},
	{name: "prompts in place of a table", job: [2]string{"{prompts: prompts.csv}", `{prompts: ["a red ball", "a blue ball."]}`}, exit: 2, what: "a red ball: no such file",
		where: "job.yaml:3", fix: "write them into a .txt"},
}
