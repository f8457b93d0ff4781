package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// shard is share index of count equal shares of a job's rows; index counts from 0. The zero value means all rows.
type shard struct {
	index, count int
	slurm        bool // from the environment of a Slurm array, whose tasks may also be different jobs
}

// notice returns a warning if the user may not have meant to run a share; else "".
func (s shard) notice() string {
	if !s.slurm || s.count == 1 {
		return ""
	}
	return fmt.Sprintf("this run is shard %v because SLURM_ARRAY_TASK_ID is set: it computes one of %d shares of the rows; give --shard 0/1 if "+
		"each task of the array has a job of its own, as in a sweep", s, s.count)
}

// String returns the form that --shard accepts.
func (s shard) String() string { return fmt.Sprintf("%d/%d", s.index, s.count) }

// maxShards is the largest number that the file names of a shard can hold.
const maxShards = 99_999

// shardOf parses i/n, or reads the shard from the environment of a Kubernetes indexed Job or a Slurm array. Kubernetes does not
// set the number of shards, so the job's spec has to set JOB_COMPLETIONS.
func shardOf(flag string, getenv func(string) string) (shard, error) {
	switch {
	case flag != "":
		return parseShard(flag)
	case getenv("JOB_COMPLETION_INDEX") != "":
		n := getenv("JOB_COMPLETIONS")
		if n == "" {
			return shard{}, errors.New("JOB_COMPLETION_INDEX is set, but not how many shards there are: " +
				"set JOB_COMPLETIONS to the Job's spec.completions, or give --shard i/n (0/1 for all rows)")
		}
		return parseShard(getenv("JOB_COMPLETION_INDEX") + "/" + n)
	case getenv("SLURM_ARRAY_TASK_ID") != "":
		return slurmShard(getenv)
	}
	return shard{}, nil
}

func parseShard(text string) (shard, error) {
	i, n, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(i)
	count, countErr := strconv.Atoi(n)
	if !ok || err != nil || countErr != nil || count < 1 || count > maxShards || index < 0 || index >= count {
		return shard{}, fmt.Errorf("shard %q: give i/n with i from 0 to n-1, such as 0/4, and n up to %d",
			text, maxShards)
	}
	return shard{index: index, count: count}, nil
}

// slurmShard returns the position of this task in its array, such as 0 to 3 for --array=5-20:5.
func slurmShard(getenv func(string) string) (shard, error) {
	var err error
	read := func(name string, missing int) int {
		text := getenv("SLURM_ARRAY_TASK_" + name)
		if text == "" {
			return missing
		}
		v, atoiErr := strconv.Atoi(text)
		if atoiErr != nil && err == nil {
			err = fmt.Errorf("SLURM_ARRAY_TASK_%s is %q, not a number", name, text)
		}
		return v
	}
	id, first, step, count := read("ID", 0), read("MIN", 0), read("STEP", 1), read("COUNT", 0)
	if err != nil {
		return shard{}, err
	}
	if count < 1 || count > maxShards || step < 1 || (id-first)%step != 0 || id < first || (id-first)/step >= count {
		return shard{}, fmt.Errorf("the Slurm array (id %d from %d by %d, %d tasks) has gaps or no count: "+
			"give --shard i/n, or 0/1 if each task has a job of its own", id, first, step, count)
	}
	return shard{(id - first) / step, count, true}, nil
}
