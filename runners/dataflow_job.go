package runners

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// object is a JSON object.
type object = map[string]any

// form is the type of an option's value.
type form string

// The forms of options.
const (
	aText   form = "text"
	aNumber form = "whole number"
	aSwitch form = "true or false"
	aList   form = "list of texts"
	aMap    form = "map of texts"
)

// matches reports whether a value of the YAML has the form.
func (f form) matches(v any) bool {
	text := func(v any) bool { _, is := v.(string); return is }
	switch v := v.(type) {
	case string:
		return f == aText
	case int64, int, uint64:
		return f == aNumber
	case bool:
		return f == aSwitch
	case []any:
		return f == aList && !slices.ContainsFunc(v, func(v any) bool { return !text(v) })
	case map[string]any:
		return f == aMap && !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return !text(v) })
	}
	return false
}

// optionPlace is the place of an option in a Dataflow job.
type optionPlace struct {
	form  form
	part  string // pool, environment or job
	field string
}

// dataflowOptions lists options by the names that Beam's own runner uses.
var dataflowOptions = map[string]optionPlace{
	"num_workers":                      {aNumber, "pool", "numWorkers"},
	"number_of_worker_harness_threads": {aNumber, "pool", "numThreadsPerWorker"},
	"disk_size_gb":                     {aNumber, "pool", "diskSizeGb"},
	"disk_type":                        {aText, "pool", "diskType"},
	"network":                          {aText, "pool", "network"},
	"subnetwork":                       {aText, "pool", "subnetwork"},
	"no_use_public_ips":                {aSwitch, "pool", "ipConfiguration"},
	"service_account_email":            {aText, "environment", "serviceAccountEmail"},
	"dataflow_kms_key":                 {aText, "environment", "serviceKmsKeyName"},
	"worker_zone":                      {aText, "environment", "workerZone"},
	"flexrs_goal":                      {aText, "environment", "flexResourceSchedulingGoal"},
	"temp_location":                    {aText, "environment", "tempStoragePrefix"},
	"experiments":                      {aList, "environment", "experiments"},
	"dataflow_service_options":         {aList, "environment", "serviceOptions"},
	"labels":                           {aMap, "job", "labels"},
}

func optionNames() []string { return slices.Sorted(maps.Keys(dataflowOptions)) }

// experiments are the experiments that Dataflow requires for portable pipelines.
var experiments = []any{"beam_fn_api", "use_runner_v2", "use_unified_worker", "use_portable_job_submission"}

// dataflowJob returns a Job of Dataflow's API (v1b3, projects.locations.jobs). Each machine runs one worker process, because a
// process owns the devices, and one bundle at a time, because a bundle fills the batches.
func dataflowJob(l Launch, s staged, p *pipepb.Pipeline) object {
	r := l.Config
	temp := at(l, "tmp")
	if given, ok := r.Options["temp_location"].(string); ok {
		temp = given
	}
	pool := object{
		"kind": "harness", "numWorkers": 1, "numThreadsPerWorker": 1, "machineType": r.MachineType,
		"packages":                    []any{object{"name": "worker", "location": at(l, s.program), "sha256": s.sums[0]}},
		"workerHarnessContainerImage": r.Image,
		"sdkHarnessContainerImages":   images(r.Image, p),
		"autoscalingSettings":         object{"algorithm": "AUTOSCALING_ALGORITHM_BASIC", "maxNumWorkers": r.MaxWorkers},
		"ipConfiguration":             "WORKER_IP_UNSPECIFIED",
	}
	environment := object{
		"userAgent":         object{"name": core.SdkName, "version": core.SdkVersion},
		"version":           object{"job_type": "FNAPI_BATCH", "major": "6"},
		"tempStoragePrefix": temp,
		"workerPools":       []any{pool},
	}
	job := object{"name": jobName(l.Job, l.ID), "type": "JOB_TYPE_BATCH", "projectId": r.Project, "location": r.Region,
		"clientRequestId": l.ID, "environment": environment}
	service := []any{}
	if r.Accelerator != "" {
		service = append(service, "worker_accelerator="+accelerator(r.Accelerator))
	}
	for name, value := range r.Options {
		o := dataflowOptions[name]
		if name == "no_use_public_ips" {
			if value == true {
				pool["ipConfiguration"] = "WORKER_IP_PRIVATE"
			}
			continue
		}
		map[string]object{"pool": pool, "environment": environment, "job": job}[o.part][o.field] = value
	}
	join := func(own []any, name string) []any {
		more, _ := r.Options[name].([]any)
		return slices.Concat(own, more)
	}
	all := join(experiments, "experiments")
	environment["experiments"] = all
	environment["serviceOptions"] = join(service, "dataflow_service_options")
	environment["sdkPipelineOptions"] = object{
		"options": object{"pipelineUrl": at(l, s.model), "pipelineProtoHash": s.sums[1], "region": r.Region,
			"experiments": all, "tempLocation": temp},
		"beam:option:go_options:v1": object{"options": object{"experiments": joined(all)}},
	}
	return job
}

func joined(list []any) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i], _ = v.(string)
	}
	return strings.Join(out, ",")
}

// images returns the container image for each environment of the pipeline.
func images(image string, p *pipepb.Pipeline) (all []any) {
	environments := p.GetComponents().GetEnvironments()
	for _, id := range slices.Sorted(maps.Keys(environments)) {
		can := environments[id].GetCapabilities()
		all = append(all, object{"containerImage": image, "environmentId": id, "capabilities": can,
			"useSingleCorePerContainer": !slices.Contains(can, graphx.URNMultiCore)})
	}
	return all
}

// accelerator converts nvidia-l4:2 to Dataflow's form of a GPU. It returns text in that form unchanged.
func accelerator(text string) string {
	if strings.HasPrefix(text, "type:") {
		return text
	}
	kind, count, found := strings.Cut(text, ":")
	if !found {
		count = "1"
	}
	return "type:" + kind + ";count:" + count + ";install-nvidia-driver"
}

// jobName returns a name that Dataflow accepts: small letters, digits and hyphens.
func jobName(title, id string) string {
	clean := func(s string) string {
		return strings.Trim(strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			}
			return '-'
		}, s), "-")
	}
	const most = 40 // characters of the title
	name := clean(title)
	return strings.Trim("latentbeam-"+name[:min(len(name), most)], "-") + "-" + clean(id)
}
