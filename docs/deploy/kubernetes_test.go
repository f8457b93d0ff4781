package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// kind holds the fields by which a Kubernetes document names its type.
type kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// documents returns the YAML documents of a file in kubernetes/.
func documents(t *testing.T, file string) (docs [][]byte) {
	t.Helper()
	data, err := os.ReadFile("kubernetes/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(data, []byte("\n---\n"))
}

// decode reads a document into the type of its kind. A key that the type does not have is an error.
func decode(t *testing.T, doc []byte) any {
	t.Helper()
	var k kind
	if err := yaml.Unmarshal(doc, &k); err != nil {
		t.Fatal(err)
	}
	var into any
	switch k {
	case kind{"v1", "ConfigMap"}:
		into = &corev1.ConfigMap{}
	case kind{"v1", "Service"}:
		into = &corev1.Service{}
	case kind{"apps/v1", "Deployment"}:
		into = &appsv1.Deployment{}
	case kind{"batch/v1", "Job"}:
		into = &batchv1.Job{}
	case kind{"batch/v1", "CronJob"}:
		into = &batchv1.CronJob{}
	default:
		t.Fatalf("decode has no Go type for %+v", k)
	}
	if err := yaml.UnmarshalStrict(doc, into); err != nil {
		t.Fatalf("%+v: %v", k, err)
	}
	return into
}

// TestManifests decodes the manifests strictly, and checks what Kubernetes and the program need of them.
func TestManifests(t *testing.T) {
	for _, file := range []string{"job.yaml", "cronjob.yaml", "flink-jobserver.yaml"} {
		for _, doc := range documents(t, file) {
			switch d := decode(t, doc).(type) {
			case *batchv1.Job:
				checkIndexed(t, d.Spec)
				checkPod(t, d.Spec.Template.Spec)
			case *appsv1.Deployment:
				if !maps.Equal(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
					t.Errorf("%s: the selector wants labels %v, but the pods have %v", file, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
				}
			case *batchv1.CronJob:
				if d.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
					t.Errorf("%s: concurrencyPolicy is %s, want Forbid: two runs must not write one output at once", file, d.Spec.ConcurrencyPolicy)
				}
				checkPod(t, d.Spec.JobTemplate.Spec.Template.Spec)
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte("kind: Job\nspec: {completion: 4}"), &batchv1.Job{}); err == nil {
		t.Error("UnmarshalStrict accepts the misspelt key completion")
	}
}

// checkIndexed checks an indexed Job: JOB_COMPLETIONS tells the program the number of shards, and there is a backoffLimitPerIndex, without
// which Kubernetes rejects the action FailIndex.
func checkIndexed(t *testing.T, s batchv1.JobSpec) {
	t.Helper()
	env := s.Template.Spec.Containers[0].Env
	at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "JOB_COMPLETIONS" })
	if at < 0 || env[at].Value != strconv.Itoa(int(*s.Completions)) || *s.CompletionMode != batchv1.IndexedCompletion {
		t.Errorf("completions %d, mode %s: want mode Indexed, and the same number as JOB_COMPLETIONS in %+v", *s.Completions, *s.CompletionMode, env)
	}
	if s.BackoffLimitPerIndex == nil {
		t.Error("FailIndex needs backoffLimitPerIndex")
	}
}

// checkPod: the folders that the program writes to are mounted, and it has time to end before it is killed.
func checkPod(t *testing.T, p corev1.PodSpec) {
	t.Helper()
	c := p.Containers[0]
	if p.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("podFailurePolicy needs restartPolicy: Never")
	}
	if *p.TerminationGracePeriodSeconds <= 60 {
		t.Errorf("terminationGracePeriodSeconds is %d, want more than the 60 s of drain_timeout", *p.TerminationGracePeriodSeconds)
	}
	for _, dir := range []string{"/cache", "/tmp", "/work", "/job"} {
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == dir })
		if at < 0 {
			t.Errorf("%s is not mounted, and the root is read-only", dir)
			continue
		}
		if !slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == c.VolumeMounts[at].Name }) {
			t.Errorf("%s: there is no volume %s", dir, c.VolumeMounts[at].Name)
		}
	}
}

// TestFlinkPods decodes the pod template of the TaskManagers strictly. It has one container, and its first volume is an image.
func TestFlinkPods(t *testing.T) {
	var d struct {
		Spec struct {
			TaskManager struct {
				PodTemplate map[string]any `json:"podTemplate"`
			} `json:"taskManager"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(documents(t, "flink.yaml")[0], &d); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(d.Spec.TaskManager.PodTemplate)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil || len(pod.Spec.Containers) != 1 || pod.Spec.Volumes[0].Image == nil {
		t.Errorf("%v: the pod template is %+v", err, pod.Spec)
	}
}

// crdVariable names the operator's CRD: META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml of the Maven artifact
// org.apache.flink:flink-kubernetes-operator-api:1.10.0.
const crdVariable = "LATENTBEAM_FLINK_CRD"

// TestFlinkCRD looks up every key of the FlinkDeployment in the operator's schema.
func TestFlinkCRD(t *testing.T) {
	file := os.Getenv(crdVariable)
	if file == "" {
		t.Skipf("NOT CHECKED against the operator's schema: %s names no file", crdVariable)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(documents(t, "flink.yaml")[0], &doc); err != nil {
		t.Fatal(err)
	}
	for _, every := range []string{"apiVersion", "kind", "metadata"} { // every object has them, and the schema does not list them
		delete(doc, every)
	}
	for _, wrong := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.check("", doc) {
		// Version 1.10.0 of the operator is older than volumes of images in Kubernetes. TestFlinkPods checks this key.
		if !strings.HasPrefix(wrong, ".spec.taskManager.podTemplate.spec.volumes[0].image:") {
			t.Error(wrong)
		}
	}
	if len(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.check("", map[string]any{"spec": map[string]any{"imag": "x"}})) != 1 {
		t.Error("check does not find the misspelt key imag")
	}
}

// schema holds the parts of an OpenAPI schema that check reads.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Additional any               `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	Enum       []any             `json:"enum"`
	Open       bool              `json:"x-kubernetes-preserve-unknown-fields"`
}

// check returns one line for each part of a value that the schema does not allow. path is the place of the value in the document.
func (s schema) check(path string, v any) (wrong []string) {
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		wrong = append(wrong, fmt.Sprintf("%s: %v is none of %v", path, v, s.Enum))
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			p, known := s.Properties[key]
			switch {
			case known:
				wrong = append(wrong, p.check(path+"."+key, value)...)
			case s.Additional == nil && !s.Open:
				wrong = append(wrong, path+"."+key+": unknown")
			}
		}
	case []any:
		for i, item := range v {
			if s.Items == nil {
				return append(wrong, path+": no list")
			}
			wrong = append(wrong, s.Items.check(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	case string:
		if s.Type != "string" && s.Type != "" {
			wrong = append(wrong, path+": a text, want "+s.Type)
		}
	}
	return wrong
}
